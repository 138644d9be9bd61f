package zonefile_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/examples/dns-zone/internal/zonefile"
)

const skeleton = `$TTL 1h
@ IN SOA ns.example.com. admin.example.com. (
    41 ; serial, not 42
    1h 15m 30d 1h )
  NS ns ; belongs to @
ns A 192.0.2.1
text TXT "; managed-by=dns-zone a/b" "SOA ( "
`

const (
	web  = "web.shop.example.com. 60 IN A 10.0.0.1 ; managed-by=dns-zone shop/web\n"
	web6 = "web.shop.example.com. 60 IN AAAA fd00::1 ; managed-by=dns-zone shop/web\n"
	api  = "api.shop.example.com. 60 IN A 10.0.0.2 ; managed-by=dns-zone shop/api\n"
)

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: name}
}

// a file with some text.
func file(t *testing.T, text string) *zonefile.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db.example.com")
	NewWithT(t).Expect(os.WriteFile(path, []byte(text), 0o640)).To(Succeed())
	return &zonefile.File{Path: path, Origin: "example.com."}
}

func set(t *testing.T, f *zonefile.File, name string, addresses ...string) (changed bool, err error) {
	t.Helper()
	var parsed []netip.Addr
	for _, a := range addresses {
		parsed = append(parsed, netip.MustParseAddr(a))
	}
	return f.Set(t.Context(), key(name), parsed)
}

func text(t *testing.T, f *zonefile.File) string {
	t.Helper()
	text, err := os.ReadFile(f.Path)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// with returns the skeleton with a serial and lines behind it.
func with(serial string, lines ...string) string {
	return strings.Replace(skeleton, "41 ;", serial+" ;", 1) + strings.Join(lines, "")
}

func TestRecordsComeAndGoAndAllElseStays(t *testing.T) {
	g := NewWithT(t)
	f := file(t, skeleton)
	for _, step := range []struct {
		name      string
		addresses []string
		changed   bool
		want      string
	}{
		{"web", nil, false, skeleton},
		{"web", []string{"10.0.0.1"}, true, with("42", web)},
		{"web", []string{"10.0.0.1"}, false, with("42", web)},
		{"api", []string{"10.0.0.2"}, true, with("43", api, web)},
		{"web", []string{"10.0.0.1", "fd00::1"}, true, with("44", api, web, web6)},
		{"web", []string{"fd00::1"}, true, with("45", api, web6)},
		{"api", nil, true, with("46", web6)},
		{"api", nil, false, with("46", web6)},
		{"web", nil, true, with("47")},
	} {
		g.Expect(set(t, f, step.name, step.addresses...)).To(Equal(step.changed))
		g.Expect(text(t, f)).To(Equal(step.want))
	}
	info, err := os.Stat(f.Path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o640)))
}

func TestWithoutAChangeNothingIsWritten(t *testing.T) {
	g := NewWithT(t)
	f := file(t, with("41", web))
	before, err := os.Stat(f.Path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(set(t, f, "web", "10.0.0.1")).To(BeFalse())
	after, err := os.Stat(f.Path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.SameFile(before, after)).To(BeTrue())
}

func TestRecordsStayWhereAPersonHasMovedThem(t *testing.T) {
	g := NewWithT(t)
	f := file(t, web+skeleton+api+"after A 192.0.2.9\n; the end")
	g.Expect(set(t, f, "web", "10.0.0.1", "fd00::1")).To(BeTrue())
	g.Expect(text(t, f)).To(Equal(web + web6 + with("42", api) + "after A 192.0.2.9\n; the end"))
	g.Expect(f.Keys(t.Context())).To(Equal([]types.NamespacedName{key("api"), key("web")}))
	g.Expect(set(t, f, "api", "10.0.0.2", "10.0.0.4")).To(BeTrue())
	g.Expect(text(t, f)).To(HavePrefix(web + web6 + with("43", api)))
	g.Expect(set(t, f, "web")).To(BeTrue())
	g.Expect(set(t, f, "api")).To(BeTrue())
	g.Expect(set(t, f, "new", "10.0.0.3")).To(BeTrue())
	g.Expect(text(t, f)).To(Equal(with("46") + "after A 192.0.2.9\n; the end\n" +
		"new.shop.example.com. 60 IN A 10.0.0.3 ; managed-by=dns-zone shop/new\n"))
}

func TestTheSerial(t *testing.T) {
	soa := func(serial string) string { return "@ 1h IN SOA ns. admin. " + serial + " 1 1 1 1\n" }
	for name, c := range map[string][2]string{
		"on one line":        {soa("7"), soa("8")},
		"with a date":        {soa("2026112101"), soa("2026112102")},
		"wraps":              {soa("4294967295"), soa("0")},
		"without an owner":   {" IN SOA ns. admin. 7 1 1 1 1\n", " IN SOA ns. admin. 8 1 1 1 1\n"},
		"in lower case":      {"@ soa ns. admin. 7 1 1 1 1\n", "@ soa ns. admin. 8 1 1 1 1\n"},
		"an owner named SOA": {"SOA SOA ns. admin. 7 1 1 1 1\n", "SOA SOA ns. admin. 8 1 1 1 1\n"},
		"behind a TXT SOA":   {"a TXT SOA 1 2 3 4\n" + soa("7"), "a TXT SOA 1 2 3 4\n" + soa("8")},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := file(t, c[0])
			g.Expect(set(t, f, "web", "10.0.0.1")).To(BeTrue())
			g.Expect(text(t, f)).To(Equal(c[1] + web))
		})
	}
}

func TestTheSerialNeverDecreases(t *testing.T) {
	g := NewWithT(t)
	f := file(t, skeleton)
	f.Skeleton = filepath.Join(t.TempDir(), "skeleton")
	g.Expect(os.WriteFile(f.Skeleton, []byte(skeleton), 0o600)).To(Succeed())
	g.Expect(set(t, f, "web", "10.0.0.1")).To(BeTrue())
	g.Expect(set(t, f, "web", "10.0.0.2")).To(BeTrue())
	g.Expect(os.Remove(f.Path)).To(Succeed())
	g.Expect(set(t, f, "web", "10.0.0.1")).To(BeTrue())
	g.Expect(text(t, f)).To(Equal(with("45", web)), "44 is the skeleton itself")
}

func TestAFileIsMadeFromTheSkeleton(t *testing.T) {
	g := NewWithT(t)
	f := file(t, skeleton)
	f.Skeleton = f.Path
	f.Path = filepath.Join(t.TempDir(), "db.example.com")
	g.Expect(f.Keys(t.Context())).To(BeEmpty())
	g.Expect(text(t, f)).To(Equal(skeleton))
}

func TestAFileThatIsNotUnderstoodIsNotWritten(t *testing.T) {
	for says, content := range map[string]string{
		"there is no SOA record":                                     "a A 192.0.2.1\n",
		"line 2: there is a second SOA record":                       "@ SOA n. a. 1 1 1 1 1\n@ SOA n. a. 1 1 1 1 1\n",
		"line 1: the SOA record has no serial":                       "@ SOA n. a.\n",
		"line 1: reading the serial":                                 "@ SOA n. a. 1h 1 1 1 1\n",
		"a parenthesis is not closed":                                "@ SOA n. a. ( 1 1 1 1 1\n",
		"line 1: a parenthesis is closed":                            "@ SOA n. a. ) 1 1 1 1 1\n",
		"line 2: a quoted string is not closed":                      "@ SOA n. a. 1 1 1 1 1\na TXT \"x\n",
		"line 3: this record has no owner name and follows a record": "@ SOA n. a. 1 1 1 1 1\n" + web + "  TXT of-whom\n",
		"line 5: this record has no owner name and follows a record": "@ SOA n. a. 1 1 1 1 1\n" + web + "\n$TTL 5\n  TXT of-whom\n",
	} {
		t.Run(says, func(t *testing.T) {
			g := NewWithT(t)
			f := file(t, content)
			_, err := set(t, f, "api", "10.0.0.2")
			g.Expect(err).To(MatchError(ContainSubstring(says)))
			_, err = f.Keys(t.Context())
			g.Expect(err).To(HaveOccurred())
			g.Expect(text(t, f)).To(Equal(content))
		})
	}
}

func TestTaggedTextThatIsNoRecordIsForeign(t *testing.T) {
	g := NewWithT(t)
	f := file(t, skeleton+"long TXT (\nx ; managed-by=dns-zone shop/web\n)\n ; managed-by=dns-zone shop/web\n")
	g.Expect(f.Keys(t.Context())).To(BeEmpty())
}

func TestAStoppedReconcileWritesNothing(t *testing.T) {
	g := NewWithT(t)
	f := file(t, skeleton)
	lost := errors.New("the leadership is lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(lost)
	_, err := f.Set(ctx, key("web"), []netip.Addr{netip.MustParseAddr("10.0.0.1")})
	g.Expect(err).To(MatchError(lost))
	g.Expect(text(t, f)).To(Equal(skeleton))
}

func TestWithoutAFileThereIsAnError(t *testing.T) {
	f := &zonefile.File{Path: filepath.Join(t.TempDir(), "none"), Origin: "example.com."}
	_, err := f.Keys(t.Context())
	NewWithT(t).Expect(err).To(MatchError(os.ErrNotExist))
	NewWithT(t).Expect(err).To(MatchError(HaveSuffix(": create the file, or set --skeleton")))
}

// Whatever the file says: if it is understood, setting and removing a record
// changes only the serial; if not, the file is as it was.
func FuzzForeignTextStays(f *testing.F) {
	f.Add(skeleton)
	f.Add(skeleton + web + "x A 1.2.3.4")
	f.Add("@ SOA a. b. 1 ( \\) \" ) \"\n)\r\n\n\t\n")
	f.Fuzz(func(t *testing.T, content string) {
		g, zone := NewWithT(t), file(t, content)
		if _, err := set(t, zone, "zz"); err != nil {
			g.Expect(text(t, zone)).To(Equal(content), "what is not understood is left alone")
			return
		}
		before := text(t, zone)
		g.Expect(set(t, zone, "zz", "10.0.0.1")).To(BeTrue())
		g.Expect(zone.Keys(t.Context())).To(ContainElement(key("zz")))
		g.Expect(set(t, zone, "zz")).To(BeTrue())
		after := text(t, zone)
		if !strings.HasSuffix(before, "\n") && strings.HasSuffix(after, "\n") {
			before += "\n"
		}
		serial := zonefile.WithSerial(before, 0)
		g.Expect(zonefile.WithSerial(after, 0)).To(Equal(serial))
	})
}
