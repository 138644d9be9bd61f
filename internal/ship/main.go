// Command ship makes the images of the programs. It uses ko, which builds
// images of Go programs without a Docker daemon. ko reads base images only from
// registries, but the images of this repository must not depend on a registry.
// So ship makes the base image, and serves it to ko from a registry on
// loopback.
//
//	base (certificates, users, /tmp) ──▶ registry ──▶ ko build ──▶ dist/images/<program>, an OCI layout
//	                                                          └──▶ the registry of -to
//
// The image of observe also contains kubectl and a shell, because the scripts
// of observe call them. ko builds these two first, each on top of the image
// before. The same commit, built with the same Go release, has the same digest
// on every machine.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// host is the name of the registry on loopback. The name appears in the
// annotations of images, so it does not contain the registry's port: the port
// is different in each run. Requests for this name reach the registry because
// ko uses the registry as its HTTP proxy.
const host = "ship.localhost"

// programs are the programs that get an image. kubectl-reboot is not one of
// them, because users run it on their own machines, as a plugin of kubectl.
var programs = []string{
	"configmap-from-crs", "dns-zone", "ingress-per-service", "mirror", "namespace-defaults", "observe", "pod-runtime",
	"podlog", "reboot-agent", "reboot-controller", "website",
}

// ship contains the values of the flags, and the address of the registry on
// loopback.
type ship struct {
	root, out, dest, files, tag, platforms, address string
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

// run makes the images of the programs in args, or of all programs, and prints
// the references of the images.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	s := &ship{}
	f := flag.NewFlagSet("ship", flag.ContinueOnError)
	f.StringVar(&s.root, "root", ".", "`directory` of the repository")
	f.StringVar(&s.out, "out", "dist/images", "`directory` in which to write an OCI layout for each program")
	f.StringVar(&s.dest, "to", "", "push to this `registry` and path, such as ghcr.io/homeostat, "+
		"instead of writing OCI layouts")
	f.StringVar(&s.files, "unpack", "", "unpack the files of the images to this `directory`, "+
		"instead of writing OCI layouts; for one platform only")
	f.StringVar(&s.tag, "tag", "devel", "`tag` and version of the images")
	f.StringVar(&s.platforms, "platforms", "linux/amd64,linux/arm64", "`list` of platforms")
	if err := f.Parse(args); err != nil {
		return err
	}
	chosen := programs
	if f.NArg() > 0 {
		chosen = f.Args()
	}
	for _, program := range chosen {
		if !slices.Contains(programs, program) {
			return fmt.Errorf("unknown program %q: must be one of %s", program, strings.Join(programs, ", "))
		}
	}
	if s.root, err = filepath.Abs(s.root); err != nil {
		return err
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	s.address = strings.TrimPrefix(server.URL, "http://")
	for _, program := range chosen {
		image, err := s.build(ctx, program)
		if err != nil {
			return fmt.Errorf("building the image of %s: %w", program, err)
		}
		fmt.Fprintln(out, image)
	}
	return nil
}

// build makes the image of a program and returns its reference. It pushes,
// unpacks or saves the image, as the flags say.
func (s *ship) build(ctx context.Context, program string) (image string, err error) {
	var tools []string
	user := "65532:65532"
	switch program {
	case "observe":
		tools = []string{"kubectl", "sh"}
	case "reboot-agent": // only root may use the D-Bus socket of the node
		user = "0:0"
	}
	base, err := s.pushBase(ctx, tools)
	for i := 0; err == nil && i < len(tools); i++ {
		base, err = s.ko(ctx, "internal/ship/"+tools[i], base, host+"/"+tools[i])
	}
	if err != nil {
		return "", fmt.Errorf("building the base image: %w", err)
	}
	source := "examples/" + strings.Replace(program, "reboot-", "reboot/", 1)
	image, err = s.ko(ctx, source, base, cmp.Or(s.dest, host)+"/"+program,
		"--image-user="+user, "--image-label=org.opencontainers.image.source=https://github.com/homeostat/homeostat",
		"--image-label=org.opencontainers.image.title="+program+",org.opencontainers.image.version="+s.tag)
	switch {
	case err != nil || s.dest != "":
		return image, err
	case s.files != "":
		return image, s.unpack(ctx, image, filepath.Join(s.files, program))
	}
	return image, s.save(ctx, image, filepath.Join(s.out, program), program)
}

// local returns reference with the name of the registry replaced by the address
// of the registry on loopback.
func (s *ship) local(reference string) string { return strings.Replace(reference, host, s.address, 1) }

// ko builds the program in a folder of the repository on top of a base image,
// pushes the image, and returns its reference. It overrides the environment
// variables that could change the build, such as GOFLAGS.
func (s *ship) ko(ctx context.Context, folder, base, repository string, flags ...string) (string, error) {
	command := exec.CommandContext(ctx, "go", append([]string{
		"tool", "-modfile=" + filepath.Join(s.root, "internal/ship/go.mod"), "ko", "build", ".", "--bare",
		"--tags=" + s.tag, "--platform=" + s.platforms,
	}, flags...)...)
	command.Dir, command.Stderr = filepath.Join(s.root, folder), os.Stderr
	command.Env = append(os.Environ(), "GOFLAGS=-buildvcs=auto", "GOWORK=off", "GOEXPERIMENT=", "GOAMD64=v1",
		"GOARM64=v8.0", "HTTP_PROXY=http://"+s.address, "KO_DOCKER_REPO="+repository, "KO_DEFAULTBASEIMAGE="+base,
		"KO_CONFIG_PATH="+filepath.Join(s.root, "internal/ship"))
	printed, err := command.Output()
	return strings.TrimSpace(string(printed)), err
}

// save writes an image as an OCI layout. The layout has two annotations: the
// tag, and the name with which the manifests refer to the image. containerd,
// kind and docker load the image under that name. save does not use ko's own
// layouts, because they have no name, and cannot be written below a folder
// whose name has capital letters.
func (s *ship) save(ctx context.Context, reference, folder, program string) error {
	parsed, err := name.ParseReference(s.local(reference))
	if err != nil {
		return err
	}
	made, err := remote.Get(parsed, remote.WithContext(ctx))
	if err != nil {
		return err
	}
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
	if index, err := made.ImageIndex(); err == nil {
		return path.AppendIndex(index, names)
	}
	image, err := made.Image() // the image of the only platform
	if err != nil {
		return err
	}
	return path.AppendImage(image, names)
}

// unpack writes the files in the layers of an image to folder.
func (s *ship) unpack(ctx context.Context, reference, folder string) error {
	image, err := crane.Pull(s.local(reference), crane.WithContext(ctx))
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o755)); err != nil {
		return err
	}
	tar := exec.CommandContext(ctx, "tar", "-x", "-p", "-C", folder)
	tar.Stdin, tar.Stderr = mutate.Extract(image), os.Stderr
	return tar.Run()
}
