package patch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/patch/children"
)

// widgetList is what an informer of widgets lists.
type widgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []widget `json:"items"`
}

func (l *widgetList) DeepCopyObject() runtime.Object {
	out := &widgetList{}
	if data, err := json.Marshal(l); err != nil || json.Unmarshal(data, out) != nil {
		return nil
	}
	return out
}

type widgetLister = gentype.ClientWithList[*widget, *widgetList]

func listedWidgets(t testing.TB, config *rest.Config) func(namespace string) *widgetLister {
	t.Helper()
	scheme, version := runtime.NewScheme(), widgetResource.GroupVersion()
	scheme.AddKnownTypeWithName(version.WithKind("Widget"), &widget{})
	scheme.AddKnownTypeWithName(version.WithKind("WidgetList"), &widgetList{})
	metav1.AddToGroupVersion(scheme, version)
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &version, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return func(namespace string) *widgetLister {
		return gentype.NewClientWithList("widgets", client, runtime.NewParameterCodec(scheme), namespace,
			func() *widget { return &widget{} }, func() *widgetList { return &widgetList{} })
	}
}

// A hiddenCase is an edit of an object of which the program does not see
// everything.
type hiddenCase struct {
	name string
	// is the spec, or, if status is set, the status of the object, as JSON, and
	// wanted what it becomes. An edit without wanted is refused: the error has
	// refused.
	is, wanted, refused string
	status              bool
	// cut is a Transform.
	cut  func(*widget)
	edit func(*widget)
}

// Each part of the JSON that has "new" or "hidden" in it is not seen by the
// program.
var hiddenCases = []hiddenCase{
	{
		name: "a member of one element", is: `{"rules":[{"host":"a","port":1,"new":"x"},{"host":"b","port":2,"new":"y"}]}`,
		wanted: `{"rules":[{"host":"a","port":9,"new":"x"},{"host":"b","port":2,"new":"y"}]}`,
		edit:   func(w *widget) { w.Spec.Rules[0].Port = 9 },
	},
	{
		name: "an entry under another key", is: `{"hosts":{"a":{"host":"x","port":1,"new":"y"},"c":{"port":2,"new":"z"}}}`,
		wanted: `{"hosts":{"b":{"host":"x","port":1},"c":{"port":2,"new":"z"}}}`, // a new entry, as documented
		edit: func(w *widget) {
			w.Spec.Hosts["b"] = w.Spec.Hosts["a"]
			delete(w.Spec.Hosts, "a")
		},
	},
	{
		name: "members that differ in case only", is: `{"rules":[{"host":"a","port":1,"Host":"new","PORT":"new"}]}`,
		wanted: `{"rules":[{"host":"a","port":9,"Host":"new","PORT":"new"}]}`,
		edit:   func(w *widget) { w.Spec.Rules[0].Port = 9 },
	},
	{
		name: "a new element", is: `{"rules":[{"host":"a","new":"x"}]}`,
		wanted: `{"rules":[{"host":"a","new":"x"},{"host":"b"}]}`,
		edit:   func(w *widget) { w.Spec.Rules = append(w.Spec.Rules, rule{Host: "b"}) },
	},
	{
		name: "an element in front, and one that is edited", is: `{"rules":[{"host":"a","port":1,"new":"x"},{"host":"b","new":"y"}]}`,
		wanted: `{"rules":[{"host":"c"},{"host":"a","port":2,"new":"x"},{"host":"b","new":"y"}]}`,
		edit: func(w *widget) {
			w.Spec.Rules[0].Port = 2
			w.Spec.Rules = slices.Insert(w.Spec.Rules, 0, rule{Host: "c"})
		},
	},
	{
		name: "an element less", is: `{"rules":[{"host":"a","new":"x"},{"host":"b","new":"y"},{"host":"c","new":"z"}]}`,
		wanted: `{"rules":[{"host":"a","new":"x"},{"host":"c","new":"z"}]}`,
		edit:   func(w *widget) { w.Spec.Rules = slices.Delete(w.Spec.Rules, 1, 2) },
	},
	{
		name: "another order", is: `{"rules":[{"host":"a","new":"x"},{"host":"b","new":"y"},{"host":"c","new":"z"}]}`,
		wanted: `{"rules":[{"host":"c","new":"z"},{"host":"b","new":"y"},{"host":"a","new":"x"}]}`,
		edit:   func(w *widget) { slices.Reverse(w.Spec.Rules) },
	},
	{
		name: "characters that JSON escapes", is: `{"rules":[{"host":"<é\"\\&>","port":1,"new":"x"}]}`,
		wanted: `{"rules":[{"host":"<é\"\\&>","port":2,"new":"x"}]}`,
		edit:   func(w *widget) { w.Spec.Rules[0].Port = 2 },
	},
	{
		name: "an element by its name", is: `{"parts":[{"name":"a","kind":"x","new":1},{"name":"b","kind":"x","new":2}]}`,
		wanted: `{"parts":[{"name":"b","kind":"y","new":2},{"name":"a","kind":"x","new":1},{"name":"c"}]}`,
		edit:   func(w *widget) { w.Spec.Parts = []part{{Name: "b", Kind: "y"}, {Name: "a", Kind: "x"}, {Name: "c"}} },
	},
	{
		name: "a list in a struct that may not be there", is: `{"size":1}`, wanted: `{"size":1,"network":{"rules":[{"host":"a"}]}}`,
		edit: func(w *widget) { w.Spec.Network.Rules = []rule{{Host: "a"}} },
	},
	{
		name: "a list in a struct of which nothing is seen", is: `{"network":{"new":{"a":"b"}}}`,
		wanted: `{"network":{"new":{"a":"b"},"rules":[{"host":"a"}]}}`,
		edit:   func(w *widget) { w.Spec.Network.Rules = []rule{{Host: "a"}} },
	},
	{
		name: "a struct without what is seen of it", is: `{"network":{"mode":"m","rules":[{"host":"a"}],"new":{"a":"b"}}}`,
		wanted: `{"network":{"new":{"a":"b"}}}`, edit: func(w *widget) { w.Spec.Network = network{} },
	},
	{
		name: "all elements removed", is: `{"rules":[{"host":"a","new":"x"},{"host":"b"}],"new":1}`, wanted: `{"new":1}`,
		edit: func(w *widget) { w.Spec.Rules = nil },
	},
	{
		name: "an empty list filled", is: `{"rules":[]}`, wanted: `{"rules":[{"host":"a"}]}`,
		edit: func(w *widget) { w.Spec.Rules = []rule{{Host: "a"}} },
	},
	{
		name: "values that their type writes otherwise", is: `{"retries":["60s"],"rules":[{"host":"a","new":"x"}]}`,
		wanted: `{"retries":["60s","2s"],"rules":[{"host":"a","new":"x"}]}`,
		edit:   func(w *widget) { w.Spec.Retries = append(w.Spec.Retries, metav1.Duration{Duration: 2 * time.Second}) },
	},
	{
		name: "a list in an element", is: `{"rules":[{"host":"a","paths":["/a"],"new":"x"}]}`,
		wanted: `{"rules":[{"host":"a","paths":["/a","/b"],"new":"x"}]}`,
		edit:   func(w *widget) { w.Spec.Rules[0].Paths = append(w.Spec.Rules[0].Paths, "/b") },
	},
	{
		name: "a list in a list", is: `{"matrix":[[{"host":"a","port":1,"new":"x"},{"host":"b","new":"y"}],[{"new":"z"}]]}`,
		wanted: `{"matrix":[[{"host":"a","port":2,"new":"x"},{"host":"b","new":"y"}],[{"new":"z"}]]}`,
		edit:   func(w *widget) { w.Spec.Matrix[0][0].Port = 2 },
	},
	{
		name: "a list in a list, its first element removed", is: `{"matrix":[[{"host":"a","new":"x"},{"host":"b","new":"y"}]]}`,
		refused: "spec.matrix", edit: func(w *widget) { w.Spec.Matrix[0] = w.Spec.Matrix[0][1:] },
	},
	{
		name: "a list in a list, all that is seen of it edited", is: `{"matrix":[[{"host":"a","new":"x"}]]}`,
		refused: "spec.matrix", edit: func(w *widget) { w.Spec.Matrix[0][0].Host = "b" },
	},
	{
		name: "a list in a list of which nothing is seen", is: `{"matrix":[[{"new":"x"}]]}`,
		refused: "spec.matrix", edit: func(w *widget) { w.Spec.Matrix[0][0].Port = 2 },
	},
	{
		name: "a list in a list that hides nothing", is: `{"matrix":[[{"host":"a"},{"host":"b"}]]}`,
		wanted: `{"matrix":[[{"host":"b"}]]}`, edit: func(w *widget) { w.Spec.Matrix[0] = w.Spec.Matrix[0][1:] },
	},
	{
		name: "lists in a map, one of them removed", is: `{"groups":{"a/~1":[{"host":"a","new":"x"}],"b":[{"host":"b","new":"y"}]}}`,
		wanted: `{"groups":{"a/~1":[{"host":"a","port":2,"new":"x"}]}}`,
		edit: func(w *widget) {
			w.Spec.Groups["a/~1"][0].Port = 2
			delete(w.Spec.Groups, "b")
		},
	},
	{
		name: "a list in a map whose key is escaped", is: `{"groups":{"a/~1":[{"host":"a","new":"x"}]}}`, refused: "spec.groups.a/~1 ",
		edit: func(w *widget) { w.Spec.Groups["a/~1"][0].Host = "b" },
	},
	{
		name: "all entries of maps removed", is: `{"settings":{"a":"b"},"groups":{"a":[{"new":"x"}],"b":[]},"new":1}`,
		wanted: `{"new":1}`, edit: func(w *widget) { w.Spec.Settings, w.Spec.Groups = nil, nil },
	},
	{
		name: "a map emptied of which a Transform has cut out an entry", is: `{"settings":{"a":"b","hidden":"c"}}`,
		refused: "spec.settings", cut: func(w *widget) { delete(w.Spec.Settings, "hidden") },
		edit: func(w *widget) { w.Spec.Settings = map[string]string{} },
	},
	{
		name: "an entry whose key the type writes otherwise", is: `{"hosts":{"A":{"port":1,"new":"x"}}}`,
		refused: "spec.hosts", edit: func(w *widget) { w.Spec.Hosts["a"] = rule{Port: 2} },
	},
	{
		name: "such an entry of strings", is: `{"colors":{"A":"red","b":"blue"}}`, refused: "spec.colors",
		edit: func(w *widget) { w.Spec.Colors["a"] = "green" },
	},
	{
		name: "such an entry removed", is: `{"colors":{"A":"red","b":"blue"}}`, refused: "spec.colors",
		edit: func(w *widget) { delete(w.Spec.Colors, "a") },
	},
	{
		name: "such an entry of which the key is a struct", is: `{"pools":{"fd00:0::/64":{"port":1,"new":"x"}}}`,
		refused: "spec.pools", edit: func(w *widget) { w.Spec.Pools[pool] = rule{Port: 2} },
	},
	{
		name: "such an entry removed of which the key is a struct", is: `{"pools":{"fd00:0::/64":{"port":1},"10.0.0.0/8":{}}}`,
		refused: "spec.pools", edit: func(w *widget) { delete(w.Spec.Pools, pool) },
	},
	{
		name:   "entries beside such an entry",
		is:     `{"hosts":{"A":{"port":1,"new":"x"},"b":{"port":1,"new":"y"},"c":{}},"colors":{"A":"red","b":"blue","c":"red"}}`,
		wanted: `{"hosts":{"A":{"port":1,"new":"x"},"b":{"port":2,"new":"y"},"d":{"port":3}},"colors":{"A":"red","b":"green","d":"red"}}`,
		edit: func(w *widget) {
			w.Spec.Hosts["b"], w.Spec.Hosts["d"] = rule{Port: 2}, rule{Port: 3}
			w.Spec.Colors["b"], w.Spec.Colors["d"] = "green", "red"
			delete(w.Spec.Hosts, "c")
			delete(w.Spec.Colors, "c")
		},
	},
	{
		name: "entries of which the key is a struct", is: `{"pools":{"fd00::/64":{"port":1,"new":"x"},"fd01:0::/64":{}}}`,
		wanted: `{"pools":{"fd00::/64":{"port":2,"new":"x"},"fd01:0::/64":{},"10.0.0.0/8":{"port":3}}}`,
		edit: func(w *widget) {
			w.Spec.Pools[pool], w.Spec.Pools[netip.MustParsePrefix("10.0.0.0/8")] = rule{Port: 2}, rule{Port: 3}
		},
	},
	{
		name: "members that a Transform has cleared", is: `{"rules":[{"host":"a","port":1},{"host":"b","port":2}]}`,
		wanted: `{"rules":[{"host":"a","port":1},{"host":"b","port":2},{"host":"c"}]}`,
		cut: func(w *widget) {
			for i := range w.Spec.Rules {
				w.Spec.Rules[i].Port = 0
			}
		},
		edit: func(w *widget) { w.Spec.Rules = append(w.Spec.Rules, rule{Host: "c"}) },
	},
	{
		name: "elements behind those that a Transform has kept", is: `{"rules":[{"host":"a"},{"host":"hidden"}]}`,
		wanted: `{"rules":[{"host":"a","port":1},{"host":"hidden"}]}`,
		cut:    cutHidden,
		edit:   func(w *widget) { w.Spec.Rules[0].Port = 1 },
	},
	{
		name: "elements before those that a Transform has kept", is: `{"rules":[{"host":"hidden"},{"host":"a"}]}`,
		refused: "spec.rules", cut: cutHidden,
		edit: func(w *widget) { w.Spec.Rules[0].Port = 1 },
	},
	{
		name: "a list that a Transform has cleared", is: `{"rules":[{"host":"hidden"}]}`, refused: "spec.rules",
		cut: func(w *widget) { w.Spec.Rules = nil }, edit: func(w *widget) { w.Spec.Rules = []rule{{Host: "a"}} },
	},
	{
		name: "a list emptied of which a Transform has cut off the end", is: `{"rules":[{"host":"a"},{"host":"hidden"}]}`,
		refused: "spec.rules", cut: cutHidden, edit: func(w *widget) { w.Spec.Rules = nil },
	},
	{
		name: "an element that was edited or replaced, nobody knows", is: `{"parts":[{"name":"a","kind":"x","new":"x"}]}`,
		refused: "spec.parts", edit: func(w *widget) { w.Spec.Parts[0].Name = "b" },
	},
	{
		name: "elements that look alike, in an order that nobody knows", refused: "spec.rules",
		is:   `{"rules":[{"host":"a","new":"x"},{"host":"a","new":"y"},{"host":"b"}]}`,
		edit: func(w *widget) { slices.Reverse(w.Spec.Rules) },
	},
	{
		name: "an element that was renamed and edited, or replaced", refused: "spec.parts",
		is:   `{"parts":[{"name":"a","kind":"x","size":1,"new":"x"}]}`,
		edit: func(w *widget) { w.Spec.Parts[0] = part{Name: "b", Kind: "x", Size: 2} },
	},
	{
		name: "an element that was replaced", is: `{"parts":[{"name":"a","kind":"x","new":"x"}]}`,
		wanted: `{"parts":[{"name":"b","kind":"y"}]}`, edit: func(w *widget) { w.Spec.Parts = []part{{Name: "b", Kind: "y"}} },
	},
	{
		name: "one that has nothing to lose", is: `{"parts":[{"name":"a","kind":"x"}]}`, wanted: `{"parts":[{"name":"b","kind":"x"}]}`,
		edit: func(w *widget) { w.Spec.Parts[0].Name = "b" },
	},
	{
		name: "the first condition", is: `{}`, status: true, edit: ready, wanted: `{"conditions":[READY],"observedGeneration":1}`,
	},
	{
		name: "a condition beside one of another writer with more members", status: true, edit: ready,
		is:     `{"new":1,"conditions":[{"type":"Theirs","status":"True","reason":"R","new":{"a":"b"}}]}`,
		wanted: `{"new":1,"conditions":[{"type":"Theirs","status":"True","reason":"R","new":{"a":"b"}},READY],"observedGeneration":1}`,
	},
	{
		name: "a condition that another writer has given more members", status: true, edit: ready,
		is:     `{"conditions":[{"type":"Ready","status":"False","reason":"R","message":"","new":"x"}],"observedGeneration":1}`,
		wanted: `{"conditions":[{"new":"x",READY}],"observedGeneration":1}`,
	},
	{
		name: "a status that a Transform has cleared", status: true, edit: ready, refused: "status",
		is:  `{"conditions":[{"type":"Hidden","status":"True","reason":"R"}]}`,
		cut: func(w *widget) { w.Status = widgetStatus{} },
	},
}

var pool = netip.MustParsePrefix("fd00::/64")

func cutHidden(w *widget) {
	w.Spec.Rules = slices.DeleteFunc(w.Spec.Rules, func(r rule) bool { return r.Host == "hidden" })
}

var since = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

func ready(w *widget) {
	meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Up", LastTransitionTime: since,
	})
}

const readyText = `"type":"Ready","status":"True","reason":"Up","message":"","lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1`

func (c hiddenCase) want() string {
	if c.refused != "" {
		return c.is
	}
	return strings.ReplaceAll(strings.ReplaceAll(c.wanted, `"x",READY`, `"x",`+readyText), "READY", "{"+readyText+"}")
}

// hiddenWorld is a server with widgets.
type hiddenWorld struct {
	*WithT
	t         testing.TB
	ctx       context.Context
	config    *rest.Config
	namespace string
	widgets   widgets
	listed    func(namespace string) *widgetLister
}

func newHiddenWorld(ctx context.Context, t testing.TB, config *rest.Config, namespace string) hiddenWorld {
	t.Helper()
	return hiddenWorld{NewWithT(t), t, ctx, config, namespace, widgetClients(t, config), listedWidgets(t, config)}
}

// store stores a widget with a part of that JSON.
func (w hiddenWorld) store(name, part, is string) {
	w.t.Helper()
	var content map[string]any
	w.Expect(json.Unmarshal([]byte(is), &content)).To(Succeed())
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "spec": map[string]any{},
		"metadata": map[string]any{"name": name, "namespace": w.namespace},
	}}
	if part == "spec" {
		u.Object["spec"] = content
	}
	c := w.widgets.dynamic.Namespace(w.namespace)
	stored, err := c.Create(w.ctx, u, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	if part == "status" && len(content) > 0 {
		stored.Object["status"] = content
		_, err = c.UpdateStatus(w.ctx, stored, metav1.UpdateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
	}
}

// cached is the widget as the program sees it.
func (w hiddenWorld) cached(name string, cut func(*widget)) *widget {
	w.t.Helper()
	got, err := w.widgets.typed(w.namespace).Get(w.ctx, name, metav1.GetOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	if cut != nil {
		cut(got)
	}
	return got
}

// has returns a part of the widget as the server has it.
func (w hiddenWorld) has(name, part string) string {
	w.t.Helper()
	u, err := w.widgets.dynamic.Namespace(w.namespace).Get(w.ctx, name, metav1.GetOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	content := u.Object[part]
	if content == nil {
		content = map[string]any{}
	}
	data, err := json.Marshal(content)
	w.Expect(err).NotTo(HaveOccurred())
	return string(data)
}

// hiddenWrites are all functions that edit a spec.
var hiddenWrites = map[string]func(w hiddenWorld, name string, c hiddenCase) error{
	"Merge": func(w hiddenWorld, name string, c hiddenCase) error {
		_, err := patch.Merge(w.ctx, w.widgets.typed, w.cached(name, c.cut), nil, c.edit)
		return err
	},
	"Ensure": func(w hiddenWorld, name string, c hiddenCase) error {
		_, err := patch.Ensure(w.ctx, w.widgets.typed, w.cached(name, c.cut), nil, c.edit)
		return err
	},
	"Finalizer": func(w hiddenWorld, name string, c hiddenCase) error {
		f := patch.Finalizer[*widget, *gentype.Client[*widget]]{
			Name: mine, Client: w.widgets.typed, Clean: func(context.Context, *widget) error { return nil },
		}
		_, newest, err := f.Guard(w.ctx, w.cached(name, c.cut))
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(newest.Finalizers).To(Equal([]string{mine}))
		_, err = patch.Merge(w.ctx, w.widgets.typed, w.cached(name, c.cut), nil, c.edit)
		return err
	},
	"children.Set": func(w hiddenWorld, name string, c hiddenCase) error {
		clients := kubernetes.NewForConfigOrDie(w.config)
		owner, err := clients.CoreV1().ConfigMaps(w.namespace).Create(w.ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
		_, err = patch.Merge(w.ctx, w.widgets.typed, w.cached(name, nil), nil, func(child *widget) {
			w.Expect(children.Own(owner, kind, child)).To(Succeed())
		})
		w.Expect(err).NotTo(HaveOccurred())
		in := informer.For(w.listed(w.namespace), &informer.Options{Transform: func(obj informer.Object) {
			if c.cut != nil && obj.GetName() == name {
				c.cut(obj.(*widget))
			}
		}})
		set := children.New(kind, clients.CoreV1().ConfigMaps, in, w.listed, nil)
		ctx, stop := context.WithCancel(w.ctx)
		ended := make(chan error, 1)
		go func() { ended <- in.Run(ctx) }()
		defer func() {
			stop()
			w.Expect(<-ended).To(Succeed())
		}()
		w.Eventually(in.HasSynced).WithTimeout(time.Minute).Should(BeTrue())
		_, err = set.Ensure(w.ctx, owner, children.Child[*widget]{Name: name, Edit: c.edit})
		return err
	},
}

// survives expects the same of every function that writes.
func (w hiddenWorld) survives(cases []hiddenCase) {
	w.t.Helper()
	status := map[string]func(w hiddenWorld, name string, c hiddenCase) error{
		"Status": func(w hiddenWorld, name string, c hiddenCase) error {
			_, err := patch.Status(w.ctx, w.widgets.typed, w.cached(name, c.cut), nil, c.edit)
			return err
		},
	}
	for i, c := range cases {
		writes, part := hiddenWrites, "spec"
		if c.status {
			writes, part = status, "status"
		}
		for how, write := range writes {
			name := strings.ToLower(fmt.Sprintf("%s-%d", how, i))
			w.store(name, part, c.is)
			err := write(w, name, c)
			if c.refused == "" {
				w.Expect(err).NotTo(HaveOccurred(), "%s: %s", how, c.name)
			} else {
				w.Expect(err).To(MatchError(ContainSubstring("the server has fields in "+c.refused)), "%s: %s", how, c.name)
				w.Expect(patch.IsStale(err)).To(BeFalse())
			}
			w.Expect(w.has(name, part)).To(MatchJSON(c.want()), "%s: %s", how, c.name)
		}
	}
}

func simulatedWidgets(t *testing.T) hiddenWorld {
	t.Helper()
	sim, err := apisim.New(&apisim.Options{Resources: []apisim.Resource{{
		Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true, Status: true,
	}}})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return newHiddenWorld(t.Context(), t, sim.Admin(), "d")
}

func TestWhatTheProgramDoesNotSeeSurvives(t *testing.T) {
	simulatedWidgets(t).survives(slices.DeleteFunc(slices.Clone(hiddenCases), func(c hiddenCase) bool { return c.refused != "" }))
}

func TestAnEditThatCouldLoseSomethingIsRefused(t *testing.T) {
	simulatedWidgets(t).survives(slices.DeleteFunc(slices.Clone(hiddenCases), func(c hiddenCase) bool { return c.refused == "" }))
}

// If the object has changed since, the index of an element would be the index
// of a different element.
func TestAnEditOfAListIsRefusedIfTheObjectHasChanged(t *testing.T) {
	w := simulatedWidgets(t)
	for i, theirs := range []string{`{"rules":[]}`, `{"rules":[{"host":"b"},{"host":"a"}]}`, `{"rules":[{"host":"a"}],"size":2}`} {
		name := fmt.Sprint("w", i)
		w.store(name, "spec", `{"rules":[{"host":"a"},{"host":"b"}]}`)
		cached := w.cached(name, nil)
		_, err := w.widgets.dynamic.Namespace("d").Patch(t.Context(), name, "application/merge-patch+json",
			[]byte(`{"spec":`+theirs+`}`), metav1.PatchOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		_, err = patch.Merge(t.Context(), w.widgets.typed, cached, nil, func(w *widget) { w.Spec.Rules[0].Port = 1 })
		w.Expect(err).To(MatchError(patch.IsStale, "IsStale"), theirs)
	}
}
