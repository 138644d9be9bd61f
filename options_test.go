package homeostat_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"math"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/fence"
	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/patch/children"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/live"
	"github.com/homeostat/homeostat/status"
)

// optionError is the form of an error about an option: package, type, field,
// value, way out.
var optionError = regexp.MustCompile(`^(?:.*: )?([a-z]+\.[A-Z]\w*)\.([A-Z]\w*)([\[.]\S*)? is (nil|set|true|-?[\d.]+\w*|NaN|".*"|\[.*\]|map\[.*\]|\w+(\(\d+\))?): .+`)

// optionType is a type of options: what is wrong with each of its fields, and
// those whose every value is taken.
type optionType struct {
	refuse func(o any) error // gets a pointer to the options
	good   any               // what its required fields need; a struct
	wrong  map[string]any
	taken  string
}

var clients = fake.NewClientset()

// optionTypes are all types of options of the public packages, whose fields are
// set by users.
var optionTypes = map[string]optionType{
	"queue.Options": {
		refuse: func(o any) error {
			_, err := queue.New(o.(*queue.Options[string]))
			return err
		},
		good:  queue.Options[string]{},
		wrong: map[string]any{"Backoff": queue.Backoff{Base: -1}, "MinInterval": -time.Second},
		taken: "Name Group Clock",
	},
	"queue.AddOptions":  {taken: "Lane After Replace ResetBackoff Own Cause"},
	"workqueue.Options": {taken: "RateLimiter Metrics"},
	"informer.Options": {
		refuse: func(o any) error {
			return informer.For(clients.CoreV1().Pods(""), o.(*informer.Options)).Parts().Validate()
		},
		good: informer.Options{},
		wrong: map[string]any{
			"Scope": "World", "Namespaces": []string{"A"}, "LabelSelector": "a in", "FieldSelector": "a",
			"MutationCheck": "maybe", "PageSize": -1, "WatchNamespaceAbove": -1,
			"BackoffBase": -1, "BackoffCap": time.Nanosecond,
		},
		taken: "Name Kind Independent Whole IndexLabels Transform DropManagedFields NoSharing",
	},
	"patch.Options": {
		refuse: func(o any) error {
			return patch.Delete(context.Background(), clients.CoreV1().Pods, &corev1.Pod{}, o.(*patch.Options))
		},
		good:  patch.Options{},
		wrong: map[string]any{"Subresource": "a/b", "FieldManager": strings.Repeat("a", 129), "TakeOver": []string{""}},
		taken: "Lock DryRun Propagation Adopt NoForce",
	},
	"patch.Finalizer": {
		refuse: func(o any) error {
			_, _, err := o.(*finalizer).Guard(context.Background(), &corev1.Pod{})
			return err
		},
		good: finalizer{
			Name: "example.com/volumes", Client: clients.CoreV1().Pods,
			Clean: func(context.Context, *corev1.Pod) error { return nil },
		},
		wrong: map[string]any{"Name": "volumes", "Client": nil, "Clean": nil},
	},
	"children.Options": {
		refuse: func(o any) error {
			set := children.New(corev1.SchemeGroupVersion.WithKind("ConfigMap"), clients.CoreV1().ConfigMaps,
				informer.For(clients.CoreV1().Pods(""), nil), clients.CoreV1().Pods, o.(*children.Options))
			_, err := set.Ensure(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "a", UID: "a"}})
			return err
		},
		good: children.Options{},
		wrong: map[string]any{
			"MaxCount": -1, "MaxShare": 1.5, "MaxRecreate": -1, "Mark": map[string]string{"a b": ""}, "Parallel": -1, "Origin": "a",
		},
		taken: "ByLabel Adopt",
	},
	"names.Options": {
		refuse: func(o any) error {
			_, err := names.NewSweep(names.Union(), target{}, o.(*names.Options))
			return err
		},
		good: names.Options{},
		wrong: map[string]any{
			"Period": -1, "Timeout": -1, "BackoffBase": -1, "BackoffCap": time.Nanosecond, "MaxShare": math.NaN(),
			"MaxCount": -1, "Confirmed": -1,
		},
		taken: "Namespaces Scope Refused",
	},
	"leader.Lease": {
		refuse: func(o any) error {
			_, err := leader.New(*o.(*leader.Lease), nil)
			return err
		},
		good:  lease,
		wrong: map[string]any{"Client": nil, "Namespace": "", "Name": "", "Identity": "a b"},
	},
	"leader.Options": {
		refuse: func(o any) error {
			_, err := leader.New(lease, o.(*leader.Options))
			return err
		},
		good: leader.Options{},
		wrong: map[string]any{
			"LeaseDuration": -1, "RenewDeadline": time.Minute, "RequestTimeout": -1, "RetryPeriod": time.Minute, "DrainTimeout": -1,
		},
		taken: "Clock",
	},
	"shard.Options": {
		refuse: func(o any) error {
			_, err := shard.New(lease, o.(*shard.Options))
			return err
		},
		good:  shard.Options{},
		wrong: map[string]any{"Slots": -1, "By": 2, "Settle": -1, "Member": leader.Options{RetryPeriod: -1}},
	},
	"fence.Options": {
		refuse: func(o any) error {
			_, _, err := fence.Policy(*o.(*fence.Options))
			return err
		},
		good:  fence.Options{Namespace: "a", Lease: "a", ServiceAccount: "a", Resources: []string{"pods"}},
		wrong: map[string]any{"Namespace": "", "Lease": "", "ServiceAccount": "", "Name": "A", "Resources": []string{"Pods"}},
		taken: "Shards",
	},
	"cluster.Options": {taken: "UserAgent"},
	"reconcile.Options": {
		refuse: func(o any) error {
			_, err := reconcile.New("test", informer.For(clients.CoreV1().Pods(""), nil), reconciler, o.(*reconcile.Options))
			return err
		},
		good: reconcile.Options{},
		wrong: map[string]any{
			"Triggers": []reconcile.Trigger{nil}, "Workers": -1, "ReconcileTimeout": -1, "Grace": -1, "Resync": -1,
			"Sweep": &names.Options{}, "FreshnessDeadline": -1, "Backoff": queue.Backoff{Base: -1}, "MinInterval": -1,
			"FieldManager": strings.Repeat("a", 129),
		},
		taken: "Leader Shards Optional Known Group Events Around", // both Leader and Shards are wrong: see package reconcile
	},
	"status.Options": {
		refuse: func(o any) error {
			_, err := status.New(o.(*status.Options))
			return err
		},
		good: status.Options{},
		wrong: map[string]any{
			"Controllers": []*reconcile.Controller{nil},
			"Liveness":    map[string]func() error{"a": nil}, "Readiness": map[string]func() error{"": func() error { return nil }},
		},
		taken: "Gatherer Authorize Profiles Problems Informers ReadyWithoutCaches",
	},
	"operator.Program": {
		refuse: func(o any) error {
			var says strings.Builder
			if o.(*operator.Program).Main([]string{"--version"}, &says) != 0 {
				return errors.New(says.String())
			}
			return nil
		},
		good: operator.Program{Name: "test", Setup: func(operator.Env) ([]*reconcile.Controller, error) { return nil, nil }},
		wrong: map[string]any{
			"Name": "", "Setup": nil, "Needs": []string{"get"}, "Clusters": []operator.Cluster{{Name: "a b"}}, "Replicas": 3,
			"Flags":  func(fs *flag.FlagSet) { fs.Bool("v", false, "") },
			"Shards": func(leader.Lease, leader.Options) (reconcile.Shards, error) { return nil, nil },
		},
		taken: "Usage FencingPolicy Profiles Beside ReadyWithoutCaches",
	},
	"reconciletest.Case": {
		refuse: func(o any) error { return o.(*reconciletest.Case).Validate() },
		good:   reconciletest.Case{Run: func(*reconciletest.Env) error { return nil }},
		wrong: map[string]any{
			"Run": nil, "Replicas": 11, "Workload": []reconciletest.Step{{}}, "Actors": []reconciletest.Actor{{}},
		},
		taken: "Objects Resources Definitions Outside Before Always Goal Ignore Roles Unneeded Unwatched",
	},
	"reconciletest.Options": {
		refuse: explore,
		good:   reconciletest.Options{Budget: time.Nanosecond},
		wrong: map[string]any{
			"Budget": -1, "Steps": -1, "Rest": -1, "Lag": -1, "Seeds": -1, "KnownFindings": []string{""}, "Shards": -1, "Shard": 1,
		},
		taken: "SkipDrift",
	},
	"live.Options": {
		refuse: func(o any) error {
			end := &silent{}
			func() {
				defer func() { _ = recover() }()
				live.Smoke(end, &reconciletest.Case{}, &rest.Config{}, o.(*live.Options))
			}()
			return end.err
		},
		good:  live.Options{},
		wrong: map[string]any{"Rest": -1, "Timeout": time.Nanosecond, "Kills": -1},
		taken: "Program",
	},
	"actors.KubeletOptions": {taken: "Start"},
	// The root does not know this module, which has a test of its own.
	"controllerruntime.Options": {taken: "OnDemand Keep KeepAbsent RefuseLists"},
}

// Every wrong value of every field of every type of options is named in one
// form, and what a field takes without a check is written down.
func TestEveryWrongOptionIsNamedInOneForm(t *testing.T) {
	left := maps.Clone(optionTypes)
	for name, fields := range typesOfOptions(t) {
		o, known := optionTypes[name]
		if !known {
			t.Errorf("%s has no row in options_test.go", name)
			continue
		}
		delete(left, name)
		listed := slices.Sorted(maps.Keys(o.wrong))
		listed = append(listed, strings.Fields(o.taken)...)
		if slices.Sort(listed); !slices.Equal(listed, fields) {
			t.Errorf("the row of %s in options_test.go has the fields %v, want %v", name, listed, fields)
		}
		if o.refuse == nil {
			continue
		}
		if err := o.refuse(pointerTo(o.good, "", nil)); err != nil && strings.Contains(err.Error(), name+".") {
			t.Errorf("good %s are refused: %v", name, err)
		}
		for field, value := range o.wrong {
			t.Run(name+"."+field, func(t *testing.T) { checkRefusal(t, o.refuse(pointerTo(o.good, field, value)), name, field) })
		}
	}
	for name := range left {
		t.Errorf("there is no type %s", name)
	}
}

// checkRefusal wants an error, each line in the form, and one about the field;
// or about a field of its value, whose type is named then.
func checkRefusal(t *testing.T, err error, of, field string) {
	t.Helper()
	if err == nil {
		t.Fatal("it is not refused")
	}
	named := false
	for line := range strings.Lines(strings.TrimSpace(err.Error())) {
		parts := optionError.FindStringSubmatch(strings.TrimSpace(line))
		if parts == nil {
			t.Errorf("want package.Type.Field is value: way out; this is %q", line)
			continue
		}
		named = named || parts[1] == of && parts[2] == field || field == "Backoff" && parts[1] == "queue.Backoff" ||
			field == "Member" && parts[1] == "leader.Options"
	}
	if !named {
		t.Errorf("want %s.%s named; this is %q", of, field, err)
	}
}

// pointerTo returns a pointer to a copy of a struct, with another value of one
// field.
func pointerTo(value any, field string, other any) any {
	p := reflect.New(reflect.TypeOf(value))
	p.Elem().Set(reflect.ValueOf(value))
	if field != "" {
		f := p.Elem().FieldByName(field)
		f.SetZero()
		if other != nil {
			f.Set(reflect.ValueOf(other).Convert(f.Type()))
		}
	}
	return p.Interface()
}

// typesOfOptions returns the fields of all types of options of the public
// packages, sorted, by the types' names.
func typesOfOptions(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, folder := range publicPackages(t) {
		p, _ := documented(t, folder)
		for _, typ := range p.Types {
			of, isStruct := typ.Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType)
			others := []string{"Lease", "Finalizer", "Program", "Case"} // what else has required fields
			if !isStruct || !strings.HasSuffix(typ.Name, "Options") && !slices.Contains(others, typ.Name) {
				continue
			}
			var fields []string
			for _, f := range of.Fields.List {
				for _, n := range f.Names {
					fields = append(fields, n.Name)
				}
			}
			slices.Sort(fields)
			all[p.Name+"."+typ.Name] = slices.DeleteFunc(fields, func(name string) bool { return !token.IsExported(name) })
		}
	}
	if len(all) < 15 {
		t.Fatalf("found %d types of options: the test does not find them", len(all))
	}
	return all
}

type finalizer = patch.Finalizer[*corev1.Pod, corev1client.PodInterface]

var lease = leader.Lease{Client: clients.CoordinationV1(), Namespace: "a", Name: "a", Identity: "a"}

var reconciler = reconcile.Func[*corev1.Pod](func(context.Context, reconcile.Request[*corev1.Pod]) (reconcile.Result, error) {
	return reconcile.Result{}, nil
})

// target is the target of a sweep that never runs.
type target struct{ names.Target }

// silent is a test that has to fail.
type silent struct {
	testing.TB
	err error
}

func (s *silent) Helper() {}

func (s *silent) Context() context.Context { return context.Background() }

func (s *silent) Fatalf(format string, args ...any) {
	s.err = fmt.Errorf(format, args...)
	panic(s)
}

// exploration is the environment variable with the options of TestExploration.
const exploration = "HOMEOSTAT_TEST_EXPLORATION"

// explore returns what an exploration in a process of its own says of its options.
func explore(o any) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	child := exec.Command(os.Args[0], "-test.run=^TestExploration$", "-test.short")
	child.Env = append(os.Environ(), exploration+"="+string(text))
	out, err := child.CombinedOutput()
	_, said, found := strings.Cut(string(out), "reading the options of an exploration: ")
	if err == nil || !found {
		return err
	}
	said, _, _ = strings.Cut(said, "\n--- ")
	said, _, _ = strings.Cut(said, "\nFAIL")
	return errors.New(said)
}

// TestExploration is run by explore.
func TestExploration(t *testing.T) {
	text := os.Getenv(exploration)
	if text == "" {
		t.Skip("it is part of another test")
	}
	var o reconciletest.Options
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	reconciletest.Explore(t, &reconciletest.Case{}, &o)
}
