package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/e2e"
)

var _ = Describe("A manifest", func() {
	It("holds any number of documents, empty ones too", func() {
		objects, err := e2e.Decode(`---
# A comment.
---
{apiVersion: v1, kind: Namespace, metadata: {name: first}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: second}}
`)
		Expect(err).NotTo(HaveOccurred())
		Expect(objects).To(HaveLen(2))
		Expect(objects[0].GetName()).To(Equal("first"))
		Expect(objects[1].GetKind()).To(Equal("ConfigMap"))
	})

	DescribeTable("says where it is wrong", func(text, want string) {
		_, err := e2e.Decode("{apiVersion: v1, kind: Namespace, metadata: {name: first}}\n---\n" + text)
		Expect(err).To(MatchError(ContainSubstring("reading a manifest after 1 objects: " + want)))
	},
		Entry("no YAML", "a: b: c", "error converting YAML"),
		Entry("no name", "{apiVersion: v1, kind: Namespace}", "the next one lacks apiVersion, kind or name"),
		Entry("no kind", "{apiVersion: v1, metadata: {name: n}}", "the next one lacks apiVersion, kind or name"),
	)
})

var _ = Describe("Options", func() {
	It("become the command line of the control plane", func() {
		Expect(e2e.Args(&e2e.Options{})).To(Equal([]string{"run", "-control", "-scheduler=false"}))
		Expect(e2e.Args(&e2e.Options{
			Scheduler: true, DataDir: "/data", Flags: []string{"etcd:--a=1", "kube-apiserver:--b=2"},
		})).To(Equal([]string{
			"run", "-control", "-scheduler=true", "-data-dir", "/data",
			"-flag", "etcd:--a=1", "-flag", "kube-apiserver:--b=2",
		}))
	})
})
