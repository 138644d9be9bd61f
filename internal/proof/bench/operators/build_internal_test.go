package main

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestAVariantIsTheReleasedProgramWithItsLine(t *testing.T) {
	g := NewWithT(t)
	l := &laboratory{scratch: t.TempDir()}
	o := &operator{
		Name: "one", Edits: []edit{{"main.go", "for all", "for every variant"}},
		Variants: managers("main.go", "mgr, err := ctrl.NewManager(config, options)", "options"),
	}
	g.Expect(os.Mkdir(l.source(o), 0o755)).To(Succeed())
	file := filepath.Join(l.source(o), "main.go")
	const text = "import (\n)\n// for all\n\tmgr, err := ctrl.NewManager(config, options)\n"
	g.Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
	const changed = "import (\n)\n// for every variant\n\tmgr, err := ctrl.NewManager(config, options)\n"
	const withLine = "import (\n\t\"github.com/homeostat/homeostat/informer/clientgo\"\n)\n// for every variant\n" +
		"\toptions.Cache.NewInformer = clientgo.NewSharedIndexInformer\n\tmgr, err := ctrl.NewManager(config, options)\n"

	for _, c := range []struct {
		variant variant
		want    string
	}{{o.Variants[0], changed}, {o.Variants[1], withLine}, {o.Variants[0], changed}} {
		g.Expect(l.apply(o, c.variant)).To(Succeed())
		found, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(found)).To(Equal(c.want))
	}
}

func TestAnEditThatDoesNotFitIsAnError(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "main.go")
	g.Expect(os.WriteFile(file, []byte("package main\n"), 0o600)).To(Succeed())
	g.Expect(change(file, []edit{{"main.go", "NewManager", "NewManager"}})).
		To(MatchError(ContainSubstring(`does not contain "NewManager"`)))
}
