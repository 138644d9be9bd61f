// Command ship makes the images of the programs, with ko, which builds Go
// programs into images without a Docker daemon. ko takes base images only from
// registries, but the images of this repository must not depend on a registry.
// So ship makes the base, and serves it to ko from a registry on loopback.
//
//	base (certificates, users, /tmp) ──▶ registry ──▶ ko build ──▶ registry ──▶ dist/images/<program>, an OCI layout
//	                                                          └──▶ the registry of -to
//
// The base of observe has a shell and kubectl, too, which its scripts call. The
// same commit, built by the same Go release, has the same digest on every
// machine.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// host is the name of the registry on loopback. It appears in the annotations
// of images, so it does not contain the registry's port, which differs from run
// to run. Requests for this name reach the registry because they use the
// registry as their HTTP proxy.
const host = "ship.localhost"

// programs maps the names of the programs that get an image to their packages.
// kubectl-reboot is not one of them, because users run it on their own
// machines, as a plugin of kubectl.
var programs = map[string]string{
	"configmap-from-crs":  "examples/configmap-from-crs",
	"dns-zone":            "examples/dns-zone",
	"ingress-per-service": "examples/ingress-per-service",
	"mirror":              "examples/mirror",
	"namespace-defaults":  "examples/namespace-defaults",
	"observe":             "examples/observe",
	"pod-runtime":         "examples/pod-runtime",
	"podlog":              "examples/podlog",
	"reboot-agent":        "examples/reboot/agent",
	"reboot-controller":   "examples/reboot/controller",
	"website":             "examples/website",
}

// ship holds the flags of the command, and the registry that it starts.
type ship struct {
	root, out, dest, files, tag string
	platforms                   []*v1.Platform
	proxy                       string // URL of the registry on loopback
}

// remote returns the options of requests to the registry on loopback.
func (s *ship) remote(ctx context.Context) []remote.Option {
	proxied := &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return url.Parse(s.proxy) }}
	return []remote.Option{remote.WithContext(ctx), remote.WithTransport(proxied)}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ship:", err)
		os.Exit(1)
	}
}

// parse returns the flags and the programs to build. These are the arguments
// after the flags, or all programs if there are no such arguments.
func parse(args []string) (s *ship, chosen []string, err error) {
	s = &ship{}
	f := flag.NewFlagSet("ship", flag.ContinueOnError)
	f.StringVar(&s.root, "root", ".", "`directory` of the repository")
	f.StringVar(&s.out, "out", "dist/images", "`directory` for OCI layouts, one for each program")
	f.StringVar(&s.dest, "to", "", "`registry` and path to push to, such as ghcr.io/homeostat, instead")
	f.StringVar(&s.files, "unpack", "", "`directory` for the files of the images, instead; of one platform")
	f.StringVar(&s.tag, "tag", "devel", "`tag` and version of the images")
	platforms := f.String("platforms", "linux/amd64,linux/arm64", "`list` of platforms")
	if err := f.Parse(args); err != nil {
		return nil, nil, err
	}
	for text := range strings.SplitSeq(*platforms, ",") {
		platform, err := v1.ParsePlatform(text)
		if err != nil {
			return nil, nil, err
		}
		s.platforms = append(s.platforms, platform)
	}
	known := slices.Sorted(maps.Keys(programs))
	for _, program := range f.Args() {
		if programs[program] == "" {
			return nil, nil, fmt.Errorf("unknown program %q: must be one of %s", program, strings.Join(known, ", "))
		}
	}
	if chosen = f.Args(); len(chosen) == 0 {
		chosen = known
	}
	s.root, err = filepath.Abs(s.root)
	return s, chosen, err
}

func run(ctx context.Context, args []string, out io.Writer) error {
	s, chosen, err := parse(args)
	if err != nil {
		return err
	}
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != host { // ko asks a cloud for credentials
			http.Error(w, "there is only "+host, http.StatusForbidden)
			return
		}
		images.ServeHTTP(w, r)
	}))
	defer server.Close()
	s.proxy = server.URL
	err = s.pushBase(ctx, "base")
	if err == nil && slices.Contains(chosen, "observe") {
		err = s.pushBase(ctx, "tools", "kubectl", "sh")
	}
	if err != nil {
		return fmt.Errorf("making the base image: %w", err)
	}
	for _, program := range chosen {
		image, err := s.build(ctx, program)
		if err != nil {
			return fmt.Errorf("making the image of %s: %w", program, err)
		}
		fmt.Fprintln(out, image)
	}
	return nil
}

// build makes the image of a program and returns its reference. It pushes,
// unpacks or saves the image, as the flags say.
func (s *ship) build(ctx context.Context, program string) (string, error) {
	user, base := "65532:65532", "base"
	switch program {
	case "observe":
		base = "tools"
	case "reboot-agent": // it reaches the D-Bus of its node
		user = "0:0"
	}
	args := []string{
		"tool", "-modfile=" + filepath.Join(s.root, "internal/ship/go.mod"), "ko", "build", ".", "--bare", "--tags=" + s.tag,
		"--image-user=" + user, "--image-label=org.opencontainers.image.source=https://github.com/homeostat/homeostat",
		"--image-label=org.opencontainers.image.title=" + program + ",org.opencontainers.image.version=" + s.tag,
	}
	for _, platform := range s.platforms {
		args = append(args, "--platform="+platform.String())
	}
	command := s.goCommand(ctx, programs[program], []string{
		"KO_DOCKER_REPO=" + cmp.Or(s.dest, host) + "/" + program, "KO_DEFAULTBASEIMAGE=" + host + "/" + base,
		"KO_CONFIG_PATH=" + filepath.Join(s.root, "internal/ship"),
	}, args...)
	printed, err := command.Output()
	image := strings.TrimSpace(string(printed))
	if err != nil || s.dest != "" {
		return image, err
	}
	reference, err := name.ParseReference(image)
	if err != nil {
		return "", err
	}
	made, err := remote.Get(reference, s.remote(ctx)...)
	if err != nil {
		return "", err
	}
	if s.files != "" {
		return image, unpack(ctx, made, filepath.Join(s.files, program))
	}
	return image, s.save(made, program)
}

// save writes an image as an OCI layout. The layout has two annotations: the
// tag, and the name by which the manifests refer to the image. containerd, kind
// and docker load the image under that name.
func (s *ship) save(made *remote.Descriptor, program string) error {
	folder := filepath.Join(s.out, program)
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	names := layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": s.tag,
		"io.containerd.image.name":          "ghcr.io/homeostat/" + program + ":" + s.tag,
	})
	if !made.MediaType.IsIndex() { // of one platform
		image, err := made.Image()
		if err != nil {
			return err
		}
		return path.AppendImage(image, names)
	}
	index, err := made.ImageIndex()
	if err != nil {
		return err
	}
	return path.AppendIndex(index, names)
}

// unpack writes the files in the layers of an image to folder.
func unpack(ctx context.Context, made *remote.Descriptor, folder string) error {
	image, err := made.Image()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	tar := exec.CommandContext(ctx, "tar", "-x", "-p", "-C", folder)
	tar.Stdin, tar.Stderr = mutate.Extract(image), os.Stderr
	return tar.Run()
}
