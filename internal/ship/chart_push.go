package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

// Media types of a chart in a registry.
const (
	chartConfig  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartContent types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// An artifact is an archive in a registry, with a description in JSON.
type artifact struct {
	manifest, config []byte
	archive          v1.Layer
}

func newArtifact(config, archive []byte) (v1.Image, error) {
	a := artifact{config: config, archive: static.NewLayer(archive, chartContent)}
	digest, size, err := v1.SHA256(bytes.NewReader(config))
	if err != nil {
		return nil, err
	}
	layer, err := partial.Descriptor(a.archive)
	if err != nil {
		return nil, err
	}
	a.manifest, err = json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: v1.Descriptor{MediaType: chartConfig, Digest: digest, Size: size}, Layers: []v1.Descriptor{*layer},
	})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(a)
}

func (a artifact) RawConfigFile() ([]byte, error) { return a.config, nil }

func (a artifact) RawManifest() ([]byte, error) { return a.manifest, nil }

func (artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

func (a artifact) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) { return a.archive, nil }

// pushCharts sends the charts in a folder, all of them or those with the given names, to a registry, below charts/,
// where helm finds them by oci://.
func pushCharts(ctx context.Context, s settings, names []string, log io.Writer) error {
	if s.registry == "" || s.into == "" {
		return errors.New("want -into DIR, where the charts are, and -to REGISTRY")
	}
	descriptions, err := filepath.Glob(filepath.Join(s.into, "*", "Chart.yaml"))
	if err != nil {
		return err
	}
	for _, file := range descriptions {
		if len(names) > 0 && !slices.Contains(names, filepath.Base(filepath.Dir(file))) {
			continue
		}
		if err := pushChart(ctx, s, file, log); err != nil {
			return err
		}
	}
	return nil
}

// pushChart sends the chart that a file describes.
func pushChart(ctx context.Context, s settings, file string, log io.Writer) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var is struct{ Name, Version string }
	if err := yaml.Unmarshal(text, &is); err != nil {
		return err
	}
	archive, err := os.ReadFile(filepath.Join(s.into, is.Name+"-"+is.Version+".tgz"))
	if err != nil {
		return err
	}
	config, err := yaml.YAMLToJSON(text)
	if err != nil {
		return err
	}
	// A tag has no plus; helm looks for the version like this.
	reference, err := name.NewTag(s.registry + "/charts/" + is.Name + ":" + strings.ReplaceAll(is.Version, "+", "_"))
	if err != nil {
		return err
	}
	image, err := newArtifact(config, archive)
	if err != nil {
		return err
	}
	credentials := remote.WithAuthFromKeychain(authn.DefaultKeychain)
	if err := remote.Write(reference, image, remote.WithContext(ctx), credentials); err != nil {
		return fmt.Errorf("pushing %s: %w", reference, err)
	}
	fmt.Fprintln(log, "oci://"+reference.String())
	return nil
}
