package apisim

import (
	"slices"
	"testing"

	"github.com/onsi/gomega"
)

// The cached form equals the result for the Go type for every name and version
// of the object, and no caller can change it.
func TestACachedFormEqualsTheFormOfTheGoType(t *testing.T) {
	deployment := func(m object) object {
		return object{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": m, "unknown": "x",
			"spec": object{"replicas": int64(2), "template": object{"spec": object{"containers": []any{object{"name": "a"}}}}},
		}
	}
	builtin := Builtin()
	kind := func(name string) *Resource {
		return &builtin[slices.IndexFunc(builtin, func(r Resource) bool { return r.Kind == name })]
	}
	for name, meta := range map[string]object{
		"nothing":       {},
		"a name":        {"namespace": "d", "name": "a", "labels": object{"b": "c"}, "annotations": object{}},
		"its identity":  {"name": "a", "uid": "u", "resourceVersion": "7", "generation": int64(3), "creationTimestamp": "2026-01-02T03:04:05Z"},
		"no identity":   {"name": "a", "uid": "", "resourceVersion": "", "generation": int64(0), "creationTimestamp": nil},
		"another zone":  {"name": "a", "creationTimestamp": "2026-01-02T03:04:05+01:00"},
		"parts":         {"name": "a", "creationTimestamp": "2026-01-02T03:04:05.678Z"},
		"no time":       {"name": "a", "creationTimestamp": "0001-01-01T00:00:00Z"},
		"a whole float": {"name": "a", "generation": 2.0},
		"an owner":      {"name": "a", "uid": "u", "ownerReferences": []any{object{"uid": "o", "kind": "K"}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			f := forms{results: map[form]object{}}
			want, err := encodeTyped(kind("Deployment"), deployment(clone(meta)))
			g.Expect(err).NotTo(gomega.HaveOccurred())
			for range 2 {
				have, err := f.lookup(kind("Deployment"), deployment(clone(meta)), encodeTyped)
				g.Expect(err).NotTo(gomega.HaveOccurred())
				g.Expect(have).To(gomega.Equal(want))
				metaOf(have)["uid"] = "another"
				asObject(have["spec"])["replicas"] = int64(5)
			}
			g.Expect(f.results).To(gomega.HaveLen(1))
			meta = clone(meta)
			meta["uid"], meta["resourceVersion"] = "v", "8"
			again, err := f.lookup(kind("Deployment"), deployment(meta), encodeTyped)
			g.Expect(err).NotTo(gomega.HaveOccurred())
			g.Expect(metaOf(again)).To(gomega.HaveKeyWithValue("uid", "v"))
		})
	}
	t.Run("another object of the same form", func(t *testing.T) {
		g := gomega.NewWithT(t)
		f := forms{results: map[form]object{}}
		for i := range int64(3) {
			m := object{"uid": "u" + formatVersion(i), "resourceVersion": formatVersion(i), "generation": i + 1}
			_, err := f.lookup(kind("Deployment"), deployment(m), encodeTyped)
			g.Expect(err).NotTo(gomega.HaveOccurred())
		}
		g.Expect(f.results).To(gomega.HaveLen(1))
	})
	for name, renewed := range map[string]any{
		"a renewed Lease":         "2026-01-02T03:04:05.600000Z",
		"a Lease of another zone": "2026-01-02T03:04:05.600000+01:00", "a zero time": "0001-01-01T00:00:00.000000Z",
		"no renewal": nil,
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			f := forms{results: map[form]object{}}
			lease := func() object {
				return object{"metadata": object{"name": "a"}, "spec": object{
					"holderIdentity": "r", "renewTime": renewed, "acquireTime": "2026-01-02T03:04:05.000000Z", "unknown": "x",
				}}
			}
			want, err := encodeTyped(kind("Lease"), lease())
			g.Expect(err).NotTo(gomega.HaveOccurred())
			for range 2 {
				input := lease()
				have, err := f.lookup(kind("Lease"), input, encodeTyped)
				g.Expect(err).NotTo(gomega.HaveOccurred())
				g.Expect(have).To(gomega.Equal(want))
				g.Expect(input).To(gomega.Equal(lease()))
			}
		})
	}
	t.Run("the renewals of a Lease", func(t *testing.T) {
		g := gomega.NewWithT(t)
		f := forms{results: map[form]object{}}
		for _, second := range []string{"05", "06", "07"} {
			_, err := f.lookup(kind("Lease"), object{"metadata": object{}, "spec": object{
				"renewTime": "2026-01-02T03:04:" + second + ".000000Z",
			}}, encodeTyped)
			g.Expect(err).NotTo(gomega.HaveOccurred())
		}
		g.Expect(f.results).To(gomega.HaveLen(1))
	})
	t.Run("what is no such object", func(t *testing.T) {
		g := gomega.NewWithT(t)
		f := forms{results: map[form]object{}}
		for range 2 {
			_, err := f.lookup(kind("Deployment"), object{"metadata": object{}, "spec": "text"}, encodeTyped)
			g.Expect(err).To(gomega.HaveOccurred())
		}
		g.Expect(f.results).To(gomega.BeEmpty())
	})
	t.Run("two kinds", func(t *testing.T) {
		g := gomega.NewWithT(t)
		f := forms{results: map[form]object{}}
		both := object{"metadata": object{"name": "a"}, "data": object{"a": "Yg=="}, "stringData": object{"a": "b"}}
		secret, err := f.lookup(kind("Secret"), both, encodeTyped)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		configMap, err := f.lookup(kind("ConfigMap"), both, encodeTyped)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(secret).To(gomega.HaveKey("stringData"))
		g.Expect(configMap).NotTo(gomega.HaveKey("stringData"))
	})
	t.Run("more than there is room for", func(t *testing.T) {
		g := gomega.NewWithT(t)
		f := forms{results: map[form]object{}}
		for i := range maxForms + 1 {
			_, err := f.lookup(kind("ConfigMap"), object{"data": object{"n": formatVersion(int64(i))}}, encodeTyped)
			g.Expect(err).NotTo(gomega.HaveOccurred())
		}
		g.Expect(f.results).To(gomega.HaveLen(1))
	})
}
