package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const root = "../.."

// fixture is a folder for the output of a test.
type fixture struct {
	*testing.T
	out string
	log bytes.Buffer
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{T: t, out: t.TempDir()}
}

// ship runs a command that has to succeed.
func (f *fixture) ship(args ...string) {
	f.Helper()
	if err := run(f.Context(), args, &f.log); err != nil {
		f.Fatal(err)
	}
}

// image returns the only image of a layout, with its tag.
func (f *fixture) image(folder string) (v1.ImageIndex, v1.Image, string) {
	f.Helper()
	all, tag, err := read(folder)
	if err != nil {
		f.Fatal(err)
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		f.Fatal(err)
	}
	img, err := all.Image(manifest.Manifests[0].Digest)
	if err != nil {
		f.Fatal(err)
	}
	return all, img, tag
}

// One program stands for all: they are built by the same code.
func TestTheSameCommitHasTheSameDigest(t *testing.T) {
	f := newFixture(t)
	platform := "linux/" + runtime.GOARCH
	digests := map[v1.Hash]bool{}
	for _, folder := range []string{"one", "two"} { // each from a clone of its own
		f.ship("images", "-root", root, "-commit", "HEAD", "-platforms", platform, "-out", filepath.Join(f.out, folder), "podlog")
		all, img, _ := f.image(filepath.Join(f.out, folder, "podlog"))
		if err := validate.Index(all); err != nil {
			t.Error(err)
		}
		digest, err := img.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests[digest] = true
	}
	if len(digests) != 1 {
		t.Errorf("two builds have %d digests, want one: %v", len(digests), digests)
	}
	_, img, tag := f.image(filepath.Join(f.out, "one", "podlog"))
	f.saysWhatItIs(img, tag)
	index, err := os.ReadFile(filepath.Join(f.out, "one", "podlog", "index.json"))
	if want := `"io.containerd.image.name": "ghcr.io/homeostat/podlog:` + tag + `"`; err != nil ||
		!strings.Contains(string(index), want) {
		t.Errorf("the layout does not say %s: %v\n%s", want, err, index)
	}
	f.listsItsModules(img)

	unpacked := filepath.Join(f.out, "files")
	f.ship("unpack", "-platforms", platform, "-out", filepath.Join(f.out, "one"), "-into", unpacked, "podlog")
	if runtime.GOOS == "linux" {
		f.starts(filepath.Join(unpacked, "podlog", "podlog"))
	}
	f.pushes(filepath.Join(f.out, "one"), tag)
}

// saysWhatItIs: the version and commit in the labels are those of the repository.
func (f *fixture) saysWhatItIs(img v1.Image, tag string) {
	f.Helper()
	config, err := img.ConfigFile()
	if err != nil {
		f.Fatal(err)
	}
	head, err := git(f.Context(), root, "rev-parse", "HEAD")
	if err != nil {
		f.Fatal(err)
	}
	labels := config.Config.Labels
	if got := labels["org.opencontainers.image.revision"]; got != head {
		f.Errorf("the label says commit %q, want %q", got, head)
	}
	version := labels["org.opencontainers.image.version"]
	if !strings.HasPrefix(version, "v") || strings.ReplaceAll(version, "+", "-") != tag {
		f.Errorf("the label says version %q, and the tag is %q", version, tag)
	}
	if config.Config.User != "65532:65532" || config.Config.Entrypoint[0] != "/podlog" {
		f.Errorf("the image runs %v as %s", config.Config.Entrypoint, config.Config.User)
	}
}

func (f *fixture) listsItsModules(img v1.Image) {
	f.Helper()
	files := f.files(img)
	var bom cyclonedx.BOM
	text := files["usr/share/sbom/podlog.cdx.json"]
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(text), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		f.Fatal(err)
	}
	names := map[string]string{}
	for _, c := range *bom.Components {
		names[c.Name] = c.PackageURL
	}
	for _, want := range []string{"std", "github.com/homeostat/homeostat", "k8s.io/client-go"} {
		if !strings.HasPrefix(names[want], "pkg:golang/"+want+"@") {
			f.Errorf("the list of modules has %q as %q", want, names[want])
		}
	}
	if !x509.NewCertPool().AppendCertsFromPEM(files["etc/ssl/certs/ca-certificates.crt"]) {
		f.Error("no certificates")
	}
}

// files is the content of an image.
func (f *fixture) files(img v1.Image) map[string][]byte {
	f.Helper()
	content := mutate.Extract(img)
	defer content.Close()
	files := map[string][]byte{}
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			f.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(archive); err != nil {
			f.Fatal(err)
		}
	}
}

// starts: the binary knows its version.
func (f *fixture) starts(program string) {
	f.Helper()
	head, err := git(f.Context(), root, "rev-parse", "--short=12", "HEAD")
	if err != nil {
		f.Fatal(err)
	}
	out, err := exec.CommandContext(f.Context(), program, "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "(commit "+head+")") {
		f.Errorf("%s --version says %q, %v; want commit %s", program, out, err, head)
	}
}

// pushes: a registry gets the image as it is.
func (f *fixture) pushes(out, tag string) {
	f.Helper()
	server := httptest.NewServer(registry.New())
	defer server.Close()
	to := strings.TrimPrefix(server.URL, "http://") + "/programs"
	f.log.Reset()
	f.ship("push", "-out", out, "-to", to, "podlog")
	all, _, _ := f.image(filepath.Join(out, "podlog"))
	digest, err := all.Digest()
	if err != nil {
		f.Fatal(err)
	}
	if want := to + "/podlog:" + tag + "@" + digest.String() + "\n"; f.log.String() != want {
		f.Errorf("pushed %q, want %q", f.log.String(), want)
	}
}

func TestUnpackingStaysInItsDirectory(t *testing.T) {
	f := newFixture(t)
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Name: "../outside", Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if err := extract(tar.NewReader(&archive), filepath.Join(f.out, "inside")); err == nil {
		t.Error("a name with two dots was unpacked")
	}
	if _, err := os.Stat(filepath.Join(f.out, "outside")); !os.IsNotExist(err) {
		t.Errorf("there is a file outside: %v", err)
	}
}

func TestThereIsNoOtherProgram(t *testing.T) {
	if err := run(t.Context(), []string{"images", "podlogs"}, io.Discard); err == nil || !strings.Contains(err.Error(), "podlog,") {
		t.Errorf("an unknown name: %v", err)
	}
}
