package main

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/registry"
	helm "helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	helmregistry "helm.sh/helm/v4/pkg/registry"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// objects holds the objects of an installation, by kind, namespace and name.
type objects map[string]map[string]any

// objectsOf reads YAML as the objects in it.
func objectsOf(t *testing.T, text string) objects {
	t.Helper()
	all := objects{}
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(o) == 0 {
			continue
		}
		metadata := child(o, "metadata")
		namespace, _ := metadata["namespace"].(string)
		all[o["kind"].(string)+" "+namespace+"/"+metadata["name"].(string)] = o
	}
	return all
}

// rendered returns the objects that helm renders from a chart.
func rendered(t *testing.T, folder, namespace string, set map[string]any) (objects, error) {
	t.Helper()
	c, err := loader.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	values, err := util.ToRenderValues(c, set, helm.ReleaseOptions{Name: "test", Namespace: namespace, IsInstall: true},
		helm.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	texts, err := engine.Render(c, values)
	if err != nil {
		t.Fatal(err)
	}
	all := objects{}
	for name, text := range texts {
		if strings.HasSuffix(name, ".yaml") {
			maps.Copy(all, objectsOf(t, text))
		}
	}
	return all, nil
}

// plain makes objects comparable: it removes everything that is only for helm, and the hashes of generated names, which
// kustomize and the chart compute differently.
func (all objects) plain(t *testing.T) objects {
	t.Helper()
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		name, _ := child(o, "metadata")["name"].(string)
		if m := hashed.FindStringSubmatch(name); m != nil && o["kind"] == "ConfigMap" {
			text = bytes.ReplaceAll(text, []byte(name), []byte(m[1]))
		}
	}
	result := objects{}
	if err := json.Unmarshal(text, &result); err != nil {
		t.Fatal(err)
	}
	for name, o := range result {
		metadata := child(o, "metadata")
		if a, ok := metadata["annotations"].(map[string]any); ok {
			if delete(a, "helm.sh/resource-policy"); len(a) == 0 {
				delete(metadata, "annotations")
			}
		}
		containers, _, _ := unstructured.NestedFieldNoCopy(o, "spec", "template", "spec", "containers")
		for _, c := range list(containers) {
			slices.SortFunc(list(c.(map[string]any)["env"]), func(a, b any) int {
				return strings.Compare(a.(map[string]any)["name"].(string), b.(map[string]any)["name"].(string))
			})
		}
		if strings.HasPrefix(name, "Namespace ") {
			delete(result, name) // helm makes it
		}
	}
	return result
}

func TestAChartInstallsWhatTheManifestDoes(t *testing.T) {
	into := t.TempDir()
	if err := run(t.Context(), []string{"charts", "-root", root, "-into", into}, io.Discard); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(root + "/examples/*/deploy/install.yaml")
	if err != nil || len(files) < 9 {
		t.Fatalf("found %d manifests: %v", len(files), err)
	}
	for _, manifest := range files {
		name := filepath.Base(filepath.Dir(filepath.Dir(manifest)))
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(manifest)
			if err != nil {
				t.Fatal(err)
			}
			want := objectsOf(t, string(text))
			namespace := ""
			for key := range want {
				if n, ok := strings.CutPrefix(key, "Namespace /"); ok {
					namespace = n
				}
			}
			got, err := rendered(t, filepath.Join(into, name), namespace, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.plain(t), got.plain(t)); diff != "" {
				t.Errorf("without values of one's own, the chart differs (- the manifest, + the chart):\n%s", diff)
			}
			for _, m := range lint.RunAll(filepath.Join(into, name), nil, namespace).Messages {
				if m.Severity > support.InfoSev {
					t.Errorf("helm lint: %v", m)
				}
			}
			elsewhere, err := rendered(t, filepath.Join(into, name), "elsewhere", nil)
			if err != nil {
				t.Fatal(err)
			}
			for key, o := range elsewhere {
				if a, _ := child(o, "metadata")["annotations"].(map[string]any); o["kind"] == "CustomResourceDefinition" &&
					a["helm.sh/resource-policy"] != "keep" {
					t.Errorf("%s goes with the release, and all its objects with it", key)
				}
				if in := child(o, "metadata")["namespace"]; in != nil && in != "elsewhere" {
					t.Errorf("%s is not in the namespace of the release", key)
				}
			}
		})
	}
}

// container is the first one of a workload that a chart with these values installs, and all its objects.
func container(t *testing.T, folder, workload, set string) (first map[string]any, all objects) {
	t.Helper()
	var values map[string]any
	if err := yaml.Unmarshal([]byte(set), &values); err != nil {
		t.Fatal(err)
	}
	all, err := rendered(t, folder, "elsewhere", values)
	if err != nil {
		t.Fatal(err)
	}
	containers, _, _ := unstructured.NestedSlice(all[workload], "spec", "template", "spec", "containers")
	if len(containers) == 0 {
		t.Fatalf("there is no %s: %v", workload, slices.Collect(maps.Keys(all)))
	}
	return containers[0].(map[string]any), all
}

func TestValuesChangeWhatAChartInstalls(t *testing.T) {
	into := t.TempDir()
	args := []string{"charts", "-root", root, "-into", into, "-tag", "v9.8.7", "website", "reboot", "dns-zone", "observe"}
	if err := run(t.Context(), args, io.Discard); err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(into, name) }

	website, all := container(t, in("website"), "Deployment elsewhere/website", `{replicas: 1, args: [--cdn=/other],
		env: {HTTPS_PROXY: "http://proxy"}, networkPolicy: false, crds: false, monitoring: true, storageClassName: shared,
		imagePullSecrets: [{name: registry}], nodeSelector: {disk: ssd}, podAnnotations: {team: web}}`)
	if website["image"] != "ghcr.io/homeostat/website:v9.8.7" || !slices.Equal(list(website["args"]), []any{"--cdn=/other"}) {
		t.Errorf("image %v, args %v", website["image"], website["args"])
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"name":"HTTPS_PROXY","value":"http://proxy"}`, `"replicas":1`, `"kind":"PodMonitor"`, `"storageClassName":"shared"`,
		`"imagePullSecrets":[{"name":"registry"}]`, `"nodeSelector":{"disk":"ssd"}`, `"annotations":{"team":"web"}`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the values have no effect: want %s in\n%s", want, text)
		}
	}
	for _, kind := range []string{"NetworkPolicy", "CustomResourceDefinition", "PodDisruptionBudget"} {
		if strings.Contains(string(text), `"kind":"`+kind+`"`) {
			t.Errorf("there is a %s, in spite of the values", kind)
		}
	}

	_, all = container(t, in("reboot"), "Deployment elsewhere/reboot-controller", `{controller: {replicas: 3},
		agent: {image: {repository: registry.example.com/agent, tag: v1}}}`)
	text, err = json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), `"image":"registry.example.com/agent:v1"`); n != 2 { // and the one that looks for files
		t.Errorf("%d containers of the agent have its image, want 2", n)
	}
	if strings.Contains(string(text), "serviceaccount:reboot:") || !strings.Contains(string(text), "serviceaccount:elsewhere:reboot-agent") {
		t.Errorf("the policies are not about the accounts of the release:\n%s", text)
	}

	_, before := container(t, in("dns-zone"), "Deployment elsewhere/dns-zone", "")
	_, after := container(t, in("dns-zone"), "Deployment elsewhere/dns-zone", `{config: {Corefile: "other"}}`)
	if cmp.Equal(before["Deployment elsewhere/dns-zone"], after["Deployment elsewhere/dns-zone"]) {
		t.Error("another Corefile does not roll the Deployment")
	}
	observe, _ := container(t, in("observe"), "Deployment elsewhere/set-owner", `{env: {OWNER: me}}`)
	if !strings.Contains(cmp.Diff(nil, observe["env"]), `"me"`) {
		t.Errorf("the owner is not set: %v", observe["env"])
	}
}

func TestAChartRefusesValuesThatItDoesNotHave(t *testing.T) {
	into := t.TempDir()
	if err := run(t.Context(), []string{"charts", "-root", root, "-into", into, "podlog"}, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, set := range []map[string]any{{"replica": 3}, {"image": map[string]any{"version": "v1"}}, {"args": "--v=4"}} {
		if _, err := rendered(t, filepath.Join(into, "podlog"), "podlog", set); err == nil {
			t.Errorf("%v is taken", set)
		}
	}
	if _, err := rendered(t, filepath.Join(into, "podlog"), "podlog", map[string]any{"global": map[string]any{}}); err != nil {
		t.Errorf("what helm gives the charts within a chart is refused: %v", err)
	}
}

func TestTheArchiveOfAChartIsTheSameEachTime(t *testing.T) {
	var archives [][]byte
	for range 2 {
		into := t.TempDir()
		if err := run(t.Context(), []string{"charts", "-root", root, "-into", into, "podlog"}, io.Discard); err != nil {
			t.Fatal(err)
		}
		found, err := filepath.Glob(into + "/podlog-*.tgz")
		if err != nil || len(found) != 1 {
			t.Fatalf("%v, %v: want one archive", found, err)
		}
		archive, err := os.ReadFile(found[0])
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, archive)
		if _, err := rendered(t, found[0], "podlog", nil); err != nil {
			t.Errorf("helm does not take the archive: %v", err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same chart differ")
	}
}

func TestHelmPullsAChartThatWasPushed(t *testing.T) {
	into := t.TempDir()
	server := httptest.NewServer(registry.New())
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	var log bytes.Buffer
	for _, args := range [][]string{
		{"charts", "-root", root, "-into", into, "-tag", "v1.2.3-rc.1", "podlog"},
		{"push-charts", "-into", into, "-to", host + "/team"},
	} {
		log.Reset()
		if err := run(t.Context(), args, &log); err != nil {
			t.Fatal(err)
		}
	}
	if want := "oci://" + host + "/team/charts/podlog:1.2.3-rc.1\n"; log.String() != want {
		t.Errorf("pushed %q, want %q", log.String(), want)
	}
	client, err := helmregistry.NewClient(helmregistry.ClientOptPlainHTTP(),
		helmregistry.ClientOptCredentialsFile(filepath.Join(into, "none")))
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.Pull(host + "/team/charts/podlog:1.2.3-rc.1")
	if err != nil {
		t.Fatal(err)
	}
	archive, err := os.ReadFile(filepath.Join(into, "podlog-1.2.3-rc.1.tgz"))
	if err != nil || !bytes.Equal(got.Chart.Data, archive) || got.Chart.Meta.Name != "podlog" {
		t.Errorf("pulled %d bytes of %s, %v: want the archive, of %d", len(got.Chart.Data), got.Chart.Meta.Name, err, len(archive))
	}
}

// Objects with finalizers that are deleted after their program stay forever, and so does their namespace.
func TestTheNotesOfAChartSayThatObjectsAreDeletedFirst(t *testing.T) {
	notes := func(example string) string {
		c, err := chartOf("../../examples/"+example, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range c.files {
			if f.name == "templates/NOTES.txt" {
				return string(f.content)
			}
		}
		t.Fatalf("the chart of %s has no notes", example)
		return ""
	}
	objects := strings.Index(notes("website"), "kubectl delete websites.web.homeostat.dev --all --all-namespaces\n")
	if program := strings.Index(notes("website"), "helm uninstall"); objects < 0 || program < objects {
		t.Errorf("the notes are %s\nwant the objects to be deleted before the program", notes("website"))
	}
	if got := notes("pod-runtime"); strings.Contains(got, "uninstall") {
		t.Errorf("the notes of a chart without kinds are %s", got)
	}
}
