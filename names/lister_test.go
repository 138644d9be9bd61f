package names_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/names"
)

var _ = Describe("Objects", func() {
	marker := func(s *corev1.Service) (names.Name, bool) {
		return names.Name{Key: types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, UID: s.UID},
			s.Labels["managed-by"] == "me"
	}

	It("lists the names behind marked objects only", func(ctx SpecContext) {
		cache := &store{objects: []*corev1.Service{
			service("a", map[string]string{"managed-by": "me"}), service("b", map[string]string{"managed-by": "you"}),
			service("c", nil),
		}}
		l := names.Objects(cache, marker)
		Expect(l.NamesWithUIDs(ctx)).To(Equal([]names.Name{known("default/a", uid1)}))
		Expect(l.Names(ctx)).To(Equal(keys("default/a")))
	})

	It("is an error before the cache has its first list", func(ctx SpecContext) {
		forbidden := errors.New("ingresses is forbidden")
		_, err := names.Objects(&store{err: forbidden}, marker).Names(ctx)
		Expect(err).To(MatchError(forbidden))
	})
})

var _ = Describe("Union", func() {
	one := names.Func(func(context.Context) ([]types.NamespacedName, error) { return keys("default/a"), nil })
	two := names.UIDFunc(func(context.Context) ([]names.Name, error) {
		return []names.Name{known("default/b", uid2)}, nil
	})

	It("lists the names of all, with the UIDs that are known", func(ctx SpecContext) {
		Expect(names.Union(one, two).NamesWithUIDs(ctx)).To(Equal(
			[]names.Name{known("default/a", ""), known("default/b", uid2)}))
	})

	It("has no names if one has none to give", func(ctx SpecContext) {
		away := errors.New("away")
		all, err := names.Union(one, names.Func(func(context.Context) ([]types.NamespacedName, error) {
			return nil, away
		}), two).NamesWithUIDs(ctx)
		Expect(err).To(MatchError(away))
		Expect(err).To(MatchError(ContainSubstring("lister 2 of 3")))
		Expect(all).To(BeNil())
	})
})

var _ = Describe("File", func() {
	It("reads the file anew each time", func(ctx SpecContext) {
		path := filepath.Join(GinkgoT().TempDir(), "names")
		l := names.File(path, nil)
		Expect(os.WriteFile(path, []byte("default/a\n"), 0o600)).To(Succeed())
		Expect(l.Names(ctx)).To(Equal(keys("default/a")))
		Expect(os.WriteFile(path, nil, 0o600)).To(Succeed())
		Expect(l.Names(ctx)).To(BeEmpty())
	})

	It("is an error without a file, and for a line that is no name", func(ctx SpecContext) {
		path := filepath.Join(GinkgoT().TempDir(), "names")
		_, err := names.File(path, nil).Names(ctx)
		Expect(err).To(MatchError(os.ErrNotExist))
		Expect(os.WriteFile(path, []byte("default\n"), 0o600)).To(Succeed())
		_, err = names.File(path, nil).Names(ctx)
		Expect(err).To(MatchError(And(ContainSubstring(path), ContainSubstring("line 1"))))
	})
})

var _ = Describe("Command", func() {
	sh := func(o *names.CommandOptions, script string) names.UIDLister {
		return names.Command(o, "sh", "-c", script)
	}

	It("lists what the program prints", func(ctx SpecContext) {
		l := sh(&names.CommandOptions{Env: []string{"ZONE=default"}}, `echo noise >&2; echo "$ZONE/a `+string(uid1)+`"`)
		Expect(l.NamesWithUIDs(ctx)).To(Equal([]names.Name{known("default/a", uid1)}))
	})

	It("gives the program no environment but the given one, if asked to", func(ctx SpecContext) {
		GinkgoT().Setenv("NAMES_TEST", "leaked")
		const script = `echo "default/${NAMES_TEST:-clean}"`
		Expect(sh(nil, script).Names(ctx)).To(Equal(keys("default/leaked")))
		Expect(sh(&names.CommandOptions{CleanEnv: true}, script).Names(ctx)).To(Equal(keys("default/clean")))
	})

	It("passes arguments on as they are", func(ctx SpecContext) {
		Expect(names.Command(nil, "printf", "%s/%s\n", "default", "$HOME").Names(ctx)).To(Equal(keys("default/$HOME")))
	})

	DescribeTable("has no names, but a reason, for",
		func(ctx SpecContext, script string, o *names.CommandOptions, reasons ...string) {
			all, err := sh(o, script).NamesWithUIDs(ctx)
			for _, reason := range reasons {
				Expect(err).To(MatchError(ContainSubstring(reason)))
			}
			Expect(all).To(BeNil())
		},
		Entry("a failure after some names", "echo default/a; echo no zone >&2; exit 3", nil,
			"exit status 3", "no zone"),
		Entry("a signal", "echo default/a; kill -9 $$", nil, "killed"),
		Entry("garbage", "echo hello world", nil, "line 1"),
		Entry("endless output", "while :; do echo default/a; done", &names.CommandOptions{MaxOutput: 1000},
			"MaxOutput"),
		Entry("endless complaints", "head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 1", nil, "exit status 1"),
	)

	It("is an error without the program", func(ctx SpecContext) {
		_, err := names.Command(nil, "/does/not/exist").Names(ctx)
		Expect(err).To(MatchError(os.ErrNotExist))
	})

	It("kills the program with its children when the context ends", func(ctx SpecContext) {
		child := filepath.Join(GinkgoT().TempDir(), "child")
		l := sh(&names.CommandOptions{Env: []string{"CHILD=" + child}},
			`sleep 1000 & echo $! >"$CHILD.tmp"; mv "$CHILD.tmp" "$CHILD"; echo default/a; wait`)
		short, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		ended := make(chan error, 1)
		go func() {
			_, err := l.Names(short)
			ended <- err
		}()
		Eventually(child, 20*time.Second).Should(BeAnExistingFile())
		late := errors.New("too late")
		cancel(late)
		Eventually(ended, 20*time.Second).Should(Receive(MatchError(late)))
		pid, err := os.ReadFile(child)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() error { return alive(string(pid)) }, 20*time.Second).ShouldNot(Succeed())
	}, SpecTimeout(time.Minute))
})
