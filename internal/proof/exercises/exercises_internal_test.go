package exercises

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

func newApp(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "yes"}}, Data: data,
	}
}

// comeAndGo has an app, changes it, and deletes it.
func comeAndGo(p program) *reconciletest.Case {
	return &reconciletest.Case{
		Objects: []runtime.Object{newApp("shop", map[string]string{"size": "1", "owner": "ann"})},
		Run:     p,
		Workload: []reconciletest.Step{
			reconciletest.Create(newApp("bar", map[string]string{"size": "2", "owner": "bob"})),
			reconciletest.Patch("configmaps", "default/shop", `{"data":{"size":"7"}}`),
			reconciletest.Delete("configmaps", "default/bar"),
		},
	}
}

// comeAgain has an app that is deleted, and created once more.
func comeAgain(p program) *reconciletest.Case {
	return &reconciletest.Case{
		Run: p,
		Workload: []reconciletest.Step{
			reconciletest.Create(newApp("shop", nil)),
			reconciletest.Delete("configmaps", "default/shop"),
			reconciletest.Create(newApp("shop", nil)),
		},
	}
}

func payOnce(p program) *reconciletest.Case {
	return &reconciletest.Case{
		Objects: []runtime.Object{newApp("shop", nil)},
		Outside: func() any { return &outsideWorld{} },
		Run:     p,
		Goal: func(w *reconciletest.World) error {
			if n := len(w.Outside().(*outsideWorld).charges); n != 1 {
				return fmt.Errorf("the customer has paid %d times", n)
			}
			return nil
		},
	}
}

func mailOnce(p program) *reconciletest.Case {
	return &reconciletest.Case{
		Objects: []runtime.Object{newApp("shop", map[string]string{"owner": "ann"})},
		Outside: func() any { return &outsideWorld{} },
		Run:     p,
		Goal: func(w *reconciletest.World) error {
			if n := len(w.Outside().(*outsideWorld).mails); n > 1 {
				return fmt.Errorf("ann has got %d mails", n)
			}
			return nil
		},
	}
}

func cleanUp(p program) *reconciletest.Case {
	return &reconciletest.Case{
		Outside: func() any { return &outsideWorld{} },
		Run:     p,
		Workload: []reconciletest.Step{
			reconciletest.Create(newApp("shop", nil)),
			reconciletest.Delete("configmaps", "default/shop"),
		},
		Goal: func(w *reconciletest.World) error {
			apps, err := reconciletest.List[corev1.ConfigMap](w, "configmaps")
			if left := w.Outside().(*outsideWorld).buckets; err == nil && len(left)+len(apps) > 0 {
				return fmt.Errorf("buckets %v and %d apps are left", left, len(apps))
			}
			return err
		},
	}
}

func renamed(p program) *reconciletest.Case {
	return &reconciletest.Case{
		Objects:  []runtime.Object{newApp("shop", map[string]string{"name": "one"})},
		Run:      p,
		Workload: []reconciletest.Step{reconciletest.Patch("configmaps", "default/shop", `{"data":{"name":"two"}}`)},
		Goal: func(w *reconciletest.World) error {
			secrets, err := reconciletest.List[corev1.Secret](w, "secrets")
			if err == nil && (len(secrets) != 1 || secrets[0].Name != "two") {
				err = fmt.Errorf("there are %d Secrets, want two", len(secrets))
			}
			return err
		},
	}
}

func taken(p program) *reconciletest.Case {
	theirs := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"}, Data: map[string][]byte{"theirs": []byte("x")},
	}
	c := comeAndGo(p)
	c.Objects = append(c.Objects, theirs)
	c.Goal = func(w *reconciletest.World) error {
		secrets, err := reconciletest.List[corev1.Secret](w, "secrets")
		if err == nil && string(secrets[0].Data["theirs"]) != "x" {
			err = fmt.Errorf("the data of Secret %s are %v", secrets[0].Name, secrets[0].Data)
		}
		return err
	}
	return c
}

func pricesChange(p program) *reconciletest.Case {
	prices := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "prices"}}
	prices.Data = map[string][]byte{"price": []byte("1")}
	return &reconciletest.Case{
		Objects:  []runtime.Object{newApp("shop", nil), prices},
		Run:      p,
		Workload: []reconciletest.Step{reconciletest.Patch("secrets", "default/prices", `{"data":{"price":"Mg=="}}`)},
		Goal: func(w *reconciletest.World) error {
			apps, err := reconciletest.List[corev1.ConfigMap](w, "configmaps")
			if err == nil && apps[0].Annotations["price"] != "2" {
				err = fmt.Errorf("the shop still says %q", apps[0].Annotations["price"])
			}
			return err
		},
	}
}

func licensed(p program) *reconciletest.Case {
	gold := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gold"}}
	gold.Data = map[string][]byte{"serial": []byte("1")}
	return &reconciletest.Case{
		Objects: []runtime.Object{newApp("shop", map[string]string{"license": "gold"}), gold},
		Run:     p,
	}
}

func twoApps(p program) *reconciletest.Case {
	return &reconciletest.Case{
		Objects: []runtime.Object{newApp("bar", nil), newApp("shop", nil)},
		Run:     p,
	}
}

func upgraded(p program) *reconciletest.Case {
	return &reconciletest.Case{
		Objects: []runtime.Object{newApp("shop", nil)},
		Before:  stateless(ownLabel), // version 1
		Run:     p,
	}
}

// exercise is one bug of the page, under the heading by which the page tells of
// it.
type exercise struct {
	heading     string
	explore     func(program) *reconciletest.Case
	bug, mended program
	oracle      string
}

var exercises = []exercise{
	{"The customer paid twice", payOnce, stateless(chargeAndNote), stateless(chargeByToken), "goal"},
	{"All owners were welcomed again after the update", mailOnce, run(mailAndRemember), stateless(noteAndMail), "goal"},
	{"We pay for storage that no app uses", cleanUp, stateless(deleteWhenNotFound), stateless(deleteByFinalizer), "goal"},
	{"The app cannot be deleted", cleanUp, stateless(cleanOnce), stateless(deleteByFinalizer), "goal"},
	{"The labels of the backup team vanish", comeAndGo, stateless(wholeLabels), stateless(ownLabel), "lost"},
	{"The API server is busy, and nothing happens", comeAndGo, stateless(timeOfLook), stateless(resultOfLook), "tail"},
	{"One in a thousand has no Secret", comeAndGo, stateless(logAndGoOn), stateless(ownLabel), "state"},
	{"After a new name there are two", renamed, stateless(newNameOnly), stateless(newNameAndNoOther), "goal"},
	{
		// Not found any more ("past" before): where a cache has selectors, the
		// controller asks the server before it reconciles a key whose object
		// the cache does not have.
		"A restart during maintenance deleted live Secrets", comeAgain,
		stateless(sweepByCache, secretNames), stateless(sweepByServer, secretNames), "",
	},
	{"It overwrote our Secret", taken, stateless(createOrUpdate), stateless(createOrRefuse, named), "goal"},
	{"The new prices arrive hours later", pricesChange, stateless(notePrice), stateless(notePrice, prices), "goal"},
	{"Values that no client has written", comeAndGo, stateless(editTheCache), stateless(editACopy), "mutation"},
	{
		"The license was renewed, and the app says the old number", licensed,
		stateless(noteLicense), stateless(noteLicense, licenses), "tail",
	},
	{"One refused Secret, and no app got any", twoApps, stateless(keepAll), stateless(keepEach), "others"},
	{"Since the update the log is full", upgraded, stateless(keepTyped), stateless(replaceUntyped), "vain"},
}

// budget is more than finding any bug takes; budgetMended is as much as the
// package can afford for a fixed program. RECONCILETEST_BUDGET=5m runs all of
// each.
const budget, budgetMended = 5 * time.Minute, 4 * time.Second

func TestBugsAreFound(t *testing.T) {
	for _, e := range exercises {
		t.Run(e.heading, func(t *testing.T) {
			r := reconciletest.Search(t, e.explore(e.bug), &reconciletest.Options{Budget: budget})
			NewWithT(t).Expect(r.Oracle).To(Equal(e.oracle), "%s", cmp.Or(r.Failure, "nothing is found"))
			t.Logf("in %d runs:\n%s", r.Runs, r.Failure)
		})
	}
}

func TestFixedProgramsPass(t *testing.T) {
	for _, e := range exercises {
		t.Run(e.heading, func(t *testing.T) {
			r := reconciletest.Search(t, e.explore(e.mended), &reconciletest.Options{Budget: budgetMended})
			NewWithT(t).Expect(r.Failure).To(BeEmpty())
			t.Log(r)
		})
	}
}

// Every exercise is on the page, with the rule that finds it, and no
// exploration has more than 20 lines.
func TestThePageShowsEachExercise(t *testing.T) {
	g := NewWithT(t)
	page, err := os.ReadFile("../../../docs/exercises.md")
	g.Expect(err).NotTo(HaveOccurred())
	for _, e := range exercises {
		_, told, found := strings.Cut(string(page), ". "+e.heading+"\n")
		told, _, _ = strings.Cut(told, "\n## ")
		g.Expect(found).To(BeTrue(), e.heading)
		g.Expect(told).To(ContainSubstring("`"+e.oracle+"`"), e.heading)
	}
	source, err := os.ReadFile("exercises_internal_test.go")
	g.Expect(err).NotTo(HaveOccurred())
	explorations := regexp.MustCompile(`(?ms)^func \w+\(p program\).*?^}$`).FindAllString(string(source), -1)
	g.Expect(explorations).NotTo(BeEmpty())
	for _, text := range explorations {
		g.Expect(strings.Count(text, "\n")+1).To(BeNumerically("<=", 20), text)
	}
}
