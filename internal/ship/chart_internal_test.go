package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	helm "helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func chartOf(product string) string { return filepath.Join(root, "examples", product, "chart") }

// objects holds the objects of an installation, by kind, namespace and name.
type objects map[string]*unstructured.Unstructured

// objectsOf reads YAML as the objects in it.
func objectsOf(t *testing.T, text string) objects {
	t.Helper()
	all := objects{}
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(o.Object) > 0 {
			all[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = o
		}
	}
	return all
}

// rendered returns the objects that helm renders from a chart with values, in
// YAML.
func rendered(t *testing.T, folder, namespace, set string) (objects, error) {
	t.Helper()
	c, err := loader.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]any{}
	if err := yaml.Unmarshal([]byte(set), &own); err != nil {
		t.Fatal(err)
	}
	values, err := util.ToRenderValues(c, own, helm.ReleaseOptions{Name: "test", Namespace: namespace, IsInstall: true},
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

// plain makes objects comparable: it removes what is only for helm, the
// Namespace, which helm makes, and the order of environment variables.
func (all objects) plain() map[string]any {
	result := map[string]any{}
	for name, o := range all {
		if o.GetKind() == "Namespace" {
			continue
		}
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations", "helm.sh/resource-policy")
		if len(o.GetAnnotations()) == 0 {
			unstructured.RemoveNestedField(o.Object, "metadata", "annotations")
		}
		containers, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "template", "spec", "containers")
		each, _ := containers.([]any)
		for _, c := range each {
			env, _ := c.(map[string]any)["env"].([]any)
			slices.SortFunc(env, func(a, b any) int {
				return strings.Compare(a.(map[string]any)["name"].(string), b.(map[string]any)["name"].(string))
			})
		}
		result[name] = o.Object
	}
	return result
}

func TestAChartInstallsWhatTheManifestDoes(t *testing.T) {
	for product, namespace := range map[string]string{"reboot": "reboot", "observe": "default"} {
		t.Run(product, func(t *testing.T) {
			manifest, err := os.ReadFile(filepath.Join(root, "examples", product, "deploy", "install.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			want := objectsOf(t, string(manifest))
			for _, o := range want {
				if o.GetKind() == "Namespace" {
					namespace = o.GetName()
				}
			}
			got, err := rendered(t, chartOf(product), namespace, "")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.plain(), got.plain()); diff != "" {
				t.Errorf("without values of one's own, the chart differs (- the manifest, + the chart):\n%s", diff)
			}
			for _, m := range lint.RunAll(chartOf(product), nil, namespace).Messages {
				if m.Severity > support.InfoSev {
					t.Errorf("helm lint: %v", m)
				}
			}
			elsewhere, err := rendered(t, chartOf(product), "elsewhere", "")
			if err != nil {
				t.Fatal(err)
			}
			for key, o := range elsewhere {
				if o.GetKind() == "CustomResourceDefinition" && o.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
					t.Errorf("%s goes with the release, and all its objects with it", key)
				}
				if in := o.GetNamespace(); in != "" && in != "elsewhere" {
					t.Errorf("%s is not in the namespace of the release", key)
				}
			}
		})
	}
}

func TestValuesChangeWhatAChartInstalls(t *testing.T) {
	text := func(product, set string) string {
		all, err := rendered(t, chartOf(product), "elsewhere", set)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	reboot := text("reboot", `{controller: {replicas: 1, nodeSelector: {disk: ssd}, podAnnotations: {team: web},
		env: {HTTPS_PROXY: "http://proxy"}}, imagePullSecrets: [{name: registry}], networkPolicy: false, crds: false,
		monitoring: true, agent: {image: {repository: registry.example.com/agent, tag: v1}}}`)
	for _, want := range []string{
		`{"name":"HTTPS_PROXY","value":"http://proxy"}`, `"replicas":1`, `"kind":"PodMonitor"`, `"nodeSelector":{"disk":"ssd"}`,
		`"imagePullSecrets":[{"name":"registry"}]`, `"annotations":{"team":"web"}`, "serviceaccount:elsewhere:reboot-agent",
	} {
		if !strings.Contains(reboot, want) {
			t.Errorf("the values have no effect: want %s in\n%s", want, reboot)
		}
	}
	for _, not := range []string{
		`"kind":"NetworkPolicy"`, `"kind":"CustomResourceDefinition"`, `"kind":"PodDisruptionBudget"`, "serviceaccount:reboot:",
	} {
		if strings.Contains(reboot, not) {
			t.Errorf("there is %s, in spite of the values, in\n%s", not, reboot)
		}
	}
	if n := strings.Count(reboot, `"image":"registry.example.com/agent:v1"`); n != 2 { // and the one that looks for files
		t.Errorf("%d containers of the agent have its image, want 2", n)
	}
	observe := text("observe", `{env: {OWNER: me}, config: {own.sh: "exit 0"}}`)
	for _, want := range []string{`{"name":"OWNER","value":"me"}`, `"own.sh":"exit 0"`} {
		if !strings.Contains(observe, want) {
			t.Errorf("the values have no effect: want %s in\n%s", want, observe)
		}
	}
}

func TestAChartRefusesValuesThatItDoesNotHave(t *testing.T) {
	for _, set := range []string{`{replica: 3}`, `{image: {version: v1}}`, `{args: --v=4}`} {
		if _, err := rendered(t, chartOf("observe"), "observe", set); err == nil {
			t.Errorf("%s is taken", set)
		}
	}
	if _, err := rendered(t, chartOf("observe"), "observe", `{global: {}}`); err != nil {
		t.Errorf("what helm gives the charts within a chart is refused: %v", err)
	}
}

// Objects with finalizers that are deleted after their program stay forever,
// and so does their kind. TestE2EAnUninstallationOfTheChartLeavesNothing runs
// the commands.
func TestTheNotesOfAChartSayThatObjectsAreDeletedFirst(t *testing.T) {
	notes, err := os.ReadFile(filepath.Join(chartOf("reboot"), "templates", "NOTES.txt"))
	if err != nil {
		t.Fatal(err)
	}
	objects := bytes.Index(notes, []byte("kubectl delete crd rebootgroups.reboot.homeostat.dev\n"))
	if program := bytes.Index(notes, []byte("helm uninstall")); objects < 0 || program < objects {
		t.Errorf("the notes are %s\nwant the objects to be deleted before the program", notes)
	}
}
