package children_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/internal/absent/absenttest"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/patch/children"
)

// inPages runs test with each answer that is not the server's own, which comes
// instead of the server's to requests of the method about the object.
func inPages(
	t *testing.T, o *children.Options, method, resource, name string, test func(w *fixture, answer func()),
) {
	pages := absenttest.Pages(corev1.Resource(resource), name)
	for _, page := range slices.Concat(pages, absenttest.Conflicts()) {
		t.Run(method+"/"+page.Name, func(t *testing.T) {
			inFixture(t, o, func(w *fixture) {
				w.Expect(w.ensure("a", "b")).To(Succeed())
				w.requests()
				test(w, func() { w.page, w.method = &page, method })
			})
		})
	}
}

// isFailure is neither a success nor what the next reconcile cures.
var isFailure = And(HaveOccurred(), Not(MatchError(patch.IsStale, "IsStale")))

func TestAPageIsNoChild(t *testing.T) {
	inPages(t, nil, http.MethodPost, "secrets", "c", func(w *fixture, answer func()) {
		answer()
		w.Expect(w.ensure("b", "c")).To(isFailure)
		w.Expect(w.has()).To(Equal([]string{"a", "b"}), "nothing is deleted before all are there")
	})
	inPages(t, nil, http.MethodPatch, "secrets", "b", func(w *fixture, answer func()) {
		w.edit("b", func(s *corev1.Secret) { s.Data["is"] = []byte("tampered") })
		answer()
		w.Expect(w.ensure("b")).To(isFailure)
		w.Expect(w.has()).To(Equal([]string{"a", "b"}))
	})
}

func TestAPageIsNoAnswerAboutTheOwner(t *testing.T) {
	inPages(t, nil, http.MethodGet, "configmaps", "site", func(w *fixture, answer func()) {
		answer()
		w.Expect(w.ensure("b")).To(isFailure)
		w.Expect(w.has()).To(Equal([]string{"a", "b"}))
		w.Expect(w.requests()).To(Equal([]string{"GET configmaps/site"}))
	})
	inPages(t, marked, http.MethodGet, "configmaps", "site", func(w *fixture, answer func()) {
		orphan := w.create("c", ours)
		answer()
		w.Expect(w.ensure("a", "b", "c")).To(isFailure)
		w.Expect(w.secret("c")).To(Equal(orphan), "it is not adopted")
	})
}

func TestAPageIsNoDeletionOfAChild(t *testing.T) {
	inPages(t, nil, http.MethodDelete, "secrets", "a", func(w *fixture, answer func()) {
		answer()
		w.Expect(w.ensure()).To(isFailure)
		w.Expect(w.requests()).To(Equal([]string{"GET configmaps/site", "DELETE secrets/a", "DELETE secrets/b"}))
		w.page = nil
		w.Expect(w.ensure()).To(Succeed())
		w.Expect(w.has()).To(BeEmpty())
	})
	inPages(t, &children.Options{MaxRecreate: 1}, http.MethodDelete, "secrets", "a", func(w *fixture, answer func()) {
		w.set = children.New(ownerKind, w.client.CoreV1().ConfigMaps, w.secrets,
			func(namespace string) strict { return strict{w.client.CoreV1().Secrets(namespace)} },
			&children.Options{MaxRecreate: 1})
		synctest.Wait()
		answer()
		w.Expect(ensureAll(w, relabelled("a", "b")...)).To(isFailure)
		w.Expect(w.has()).To(Equal([]string{"a", "b"}), "no child is taken for one that is created again")
	})
}

// owners are answers that are not about the owner, or do not have its UID.
func owners() []absenttest.Page {
	page := func(name, metadata string) absenttest.Page {
		body := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"900",` + metadata + `}}`
		return absenttest.Page{Name: name, ContentType: "application/json", Status: http.StatusOK, Body: body}
	}
	return append(absenttest.Successes(),
		page("an owner without a UID", `"name":"site","namespace":"d"`),
		page("an owner in another namespace", `"name":"site","namespace":"e","uid":"u"`),
		page("an owner with another name", `"name":"sit","namespace":"d","uid":"u"`))
}

// An answer without fields is not about an owner: it has neither this owner's
// UID nor the UID of another owner.
func TestASuccessThatIsNotTheServersIsNoOwner(t *testing.T) {
	for _, page := range owners() {
		t.Run(page.Name, func(t *testing.T) {
			inFixture(t, byLabel, func(w *fixture) {
				w.Expect(w.ensure("a", "b")).To(Succeed())
				w.requests()
				w.page, w.method = &page, http.MethodGet
				w.Expect(w.set.DeleteOrphans(t.Context(), bound.KeyOf(w.owner))).To(isFailure)
				w.Expect(w.ensure("a")).To(isFailure)
				w.page = nil
				w.Expect(w.has()).To(Equal([]string{"a", "b"}))
			})
		})
	}
}

// A gateway answers a creation with the name only. No other child is deleted,
// since the wanted one may not exist.
func TestAnAnswerToACreationWithoutAUIDDeletesNothing(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		w.Expect(w.ensure("old")).To(Succeed())
		w.method, w.page = http.MethodPost, &absenttest.Page{
			ContentType: "application/json", Status: http.StatusCreated,
			Body: fmt.Sprintf(`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"new","namespace":"d","ownerReferences":[`+
				`{"apiVersion":"v1","kind":"ConfigMap","name":"site","uid":%q,"controller":true}]}}`, w.owner.UID),
		}
		w.Expect(w.ensure("new")).To(MatchError(ContainSubstring(`writing "d/new": the answer has no UID`)))
		w.page.Body = `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"new","namespace":"d"}}`
		w.Expect(w.ensure("new")).To(MatchError(ContainSubstring(`the answer to its creation says that it has no controller`)))
		w.Expect(w.has()).To(Equal([]string{"old"}))
		w.page = nil
		w.Expect(w.ensure("new")).To(Succeed())
		w.Expect(w.has()).To(Equal([]string{"new"}))
	})
}
