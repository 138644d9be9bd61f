package diff_test

import (
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/internal/diff"
)

type member struct {
	Name string   `json:"name,omitempty"`
	List []string `json:"list,omitempty"`
}

// copied has a member of each kind that a copy may lack or share.
type copied struct {
	Text     string                `json:"text"`
	Count    *int64                `json:"count,omitempty"`
	Leaf     *member               `json:"member,omitempty"`
	Leaves   []member              `json:"leaves,omitempty"`
	Bytes    []byte                `json:"bytes,omitempty"`
	ByName   map[string]string     `json:"byName,omitempty"`
	Lists    map[string][]string   `json:"lists,omitempty"`
	Pointers map[string]*member    `json:"pointers,omitempty"`
	Any      map[string]any        `json:"any,omitempty"`
	Raw      *runtime.RawExtension `json:"raw,omitempty"`
	At       metav1.Time           `json:"at,omitzero"`
	Amount   resource.Quantity     `json:"amount"`
	Nothing  *struct{}             `json:"nothing,omitempty"`
	Hidden   map[string]string     `json:"-"`
}

func newCopied() *copied {
	return &copied{
		Text: "a", Count: ptr.To[int64](1), Leaf: &member{"b", []string{"c"}}, Leaves: []member{{"d", nil}, {"e", []string{"f"}}},
		Bytes: []byte("g"), ByName: map[string]string{"h": "i"}, Lists: map[string][]string{"j": {"k"}},
		Pointers: map[string]*member{"l": {"m", nil}}, Any: map[string]any{"n": int64(9007199254740993)},
		Raw: &runtime.RawExtension{Raw: []byte(`{"o":1}`)}, At: metav1.Unix(7, 0), Amount: resource.MustParse("500m"),
		Nothing: &struct{}{},
	}
}

func TestADeepCopyPassesTheCheck(t *testing.T) {
	g := gomega.NewWithT(t)
	g.Expect(diff.CheckCopy(newCopied(), newCopied())).To(gomega.Succeed())
	g.Expect(diff.CheckCopy(&copied{}, &copied{})).To(gomega.Succeed())
	g.Expect(diff.CheckCopy(&copied{Leaves: []member{}, ByName: map[string]string{}}, &copied{})).To(gomega.Succeed(),
		"the JSON of both is the same")
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d", Labels: map[string]string{"a": "b"}, CreationTimestamp: metav1.Now()}}
	d.Spec.Template.Spec = corev1.PodSpec{
		TerminationGracePeriodSeconds: ptr.To[int64](3),
		Volumes:                       []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		Containers: []corev1.Container{{
			Name: "c", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}},
		}},
	}
	g.Expect(diff.CheckCopy(d, d.DeepCopy())).To(gomega.Succeed())
}

func TestTheMemberThatACopyLacksOrSharesIsNamed(t *testing.T) {
	g := gomega.NewWithT(t)
	for path, spoil := range map[string]func(original, duplicate *copied){
		"changes text":                func(_, c *copied) { c.Text = "" },
		"changes count":               func(_, c *copied) { c.Count = ptr.To[int64](2) },
		"changes member":              func(_, c *copied) { c.Leaf = nil },
		"changes member.name":         func(_, c *copied) { c.Leaf.Name = "" },
		"changes leaves":              func(_, c *copied) { c.Leaves = c.Leaves[:1] },
		"changes leaves.1.name":       func(_, c *copied) { c.Leaves[1].Name = "x" },
		"changes leaves.1.list":       func(_, c *copied) { c.Leaves[1].List = nil },
		"changes bytes":               func(_, c *copied) { c.Bytes = []byte("x") },
		"changes byName":              func(_, c *copied) { c.ByName = nil },
		"changes pointers":            func(_, c *copied) { c.Pointers["l"].Name = "" },
		"changes any":                 func(_, c *copied) { c.Any["n"] = float64(9007199254740993) },
		"changes raw":                 func(_, c *copied) { c.Raw.Raw = []byte(`{"o":2}`) },
		"changes at":                  func(_, c *copied) { c.At = metav1.Time{} },
		"changes amount":              func(_, c *copied) { c.Amount = resource.MustParse("600m") },
		"does not copy count":         func(o, c *copied) { c.Count = o.Count },
		"does not copy member":        func(o, c *copied) { c.Leaf = o.Leaf },
		"does not copy member.list":   func(o, c *copied) { c.Leaf.List = o.Leaf.List },
		"does not copy leaves":        func(o, c *copied) { c.Leaves = o.Leaves },
		"does not copy leaves.1.list": func(o, c *copied) { c.Leaves[1].List = o.Leaves[1].List },
		"does not copy bytes":         func(o, c *copied) { c.Bytes = o.Bytes },
		"does not copy byName":        func(o, c *copied) { c.ByName = o.ByName },
		"does not copy lists.j":       func(o, c *copied) { c.Lists["j"] = o.Lists["j"] },
		"does not copy pointers.l":    func(o, c *copied) { c.Pointers["l"] = o.Pointers["l"] },
		"does not copy any":           func(o, c *copied) { c.Any = o.Any },
		"does not copy raw":           func(o, c *copied) { c.Raw = o.Raw },
	} {
		original, duplicate := newCopied(), newCopied()
		spoil(original, duplicate)
		err := diff.CheckCopy(original, duplicate)
		g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("the object's DeepCopyObject method "+path+":")), path)
	}
	whole := newCopied()
	g.Expect(diff.CheckCopy(whole, whole)).NotTo(gomega.Succeed())
}
