package patch_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/patch"
)

type nodeConfig = corev1apply.NodeApplyConfiguration

// applying answers each apply with a Node of the next resourceVersion.
type applying struct {
	asked   []metav1.ApplyOptions
	configs []*nodeConfig
	version int
	err     error
}

func (a *applying) Apply(_ context.Context, c *nodeConfig, o metav1.ApplyOptions) (*corev1.Node, error) {
	a.asked, a.configs = append(a.asked, o), append(a.configs, c)
	a.version++
	n := applied(a.version, "doorman", `{"f:metadata":{}}`)
	n.Name = *c.Name
	if c.UID != nil {
		n.UID = *c.UID
	}
	return n, a.err
}

func applied(version int, manager, fields string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n1", UID: "u1", ResourceVersion: strconv.Itoa(version),
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(fields),
		}},
	}}
}

// fixture is an Applier and its server.
type fixture struct {
	*WithT
	ctx    context.Context
	server *applying
	*patch.Applier[*nodeConfig, *corev1.Node]
}

var asDoorman = &patch.Options{FieldManager: "doorman"}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	server := &applying{}
	return &fixture{NewWithT(t), t.Context(), server, patch.NewApplier(always(server))}
}

// asks returns how many requests an Apply makes.
func (f *fixture) asks(cached *corev1.Node, c *nodeConfig) int {
	before := len(f.server.asked)
	_, err := f.Apply(f.ctx, cached, asDoorman, c)
	f.Expect(err).NotTo(HaveOccurred())
	return len(f.server.asked) - before
}

func zoned(value string) *nodeConfig {
	return corev1apply.Node("n1").WithLabels(map[string]string{"zone": value})
}

func TestAnApplierForcesItsFieldsUnderTheFieldManager(t *testing.T) {
	f := newFixture(t)
	f.Expect(f.asks(nil, zoned("a"))).To(Equal(1))
	f.Expect(f.server.asked[0]).To(Equal(metav1.ApplyOptions{FieldManager: "doorman", Force: true}))
}

func TestAnApplierDoesNotRepeatAnUnchangedRequest(t *testing.T) {
	f := newFixture(t)
	f.Expect(f.asks(nil, zoned("a"))).To(Equal(1))
	seen := applied(1, "doorman", `{"f:metadata":{}}`)
	f.Expect(f.asks(seen, zoned("a"))).To(BeZero())
	f.Expect(f.asks(seen, zoned("b"))).To(Equal(1))
}

func TestAnApplierRepeatsNoRequestWhileTheCacheIsBehindOrAfterAChangeOfOtherFields(t *testing.T) {
	f := newFixture(t)
	f.server.version = 6
	f.Expect(f.asks(nil, zoned("a"))).To(Equal(1))
	f.Expect(f.asks(applied(3, "other", `{}`), zoned("a"))).To(BeZero())
	f.Expect(f.asks(applied(9, "doorman", `{"f:metadata":{}}`), zoned("a"))).To(BeZero())
}

func TestAnApplierRepeatsARequestWhenAnotherManagerTookAField(t *testing.T) {
	f := newFixture(t)
	f.Expect(f.asks(nil, zoned("a"))).To(Equal(1))
	f.Expect(f.asks(applied(2, "doorman", `{}`), zoned("a"))).To(Equal(1))
}

func TestAnApplierRepeatsARequestForARecreatedObjectAfterForgetAndWithoutACachedObject(t *testing.T) {
	f := newFixture(t)
	f.Expect(f.asks(nil, zoned("a"))).To(Equal(1))
	other := applied(1, "doorman", `{"f:metadata":{}}`)
	other.UID = "u9"
	f.Expect(f.asks(other, zoned("a"))).To(Equal(1))
	f.Expect(f.asks(nil, zoned("a"))).To(Equal(1))
	f.Forget(types.NamespacedName{Name: "n1"})
	f.Expect(f.asks(applied(3, "doorman", `{"f:metadata":{}}`), zoned("a"))).To(Equal(1))
}

func TestAnApplierRemembersALimitedNumberOfObjects(t *testing.T) {
	f := newFixture(t)
	patch.Limit(f.Applier, 2)
	for _, name := range []string{"n1", "n2", "n3", "n1", "n2", "n3"} {
		_, err := f.Apply(t.Context(), nil, asDoorman, corev1apply.Node(name))
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(patch.Remembered(f.Applier)).To(BeNumerically("<=", 2))
	}
	f.Expect(patch.Remembered(f.Applier)).To(Equal(2))
}

func TestAnApplierRemembersNothingOfAFailure(t *testing.T) {
	f := newFixture(t)
	f.Expect(f.asks(nil, zoned("a"))).To(Equal(1))
	f.server.err = errors.New("broken")
	_, err := f.Apply(t.Context(), nil, asDoorman, zoned("a"))
	f.Expect(err).To(MatchError(ContainSubstring("broken")))
	f.server.err = nil
	f.Expect(f.asks(applied(1, "doorman", `{"f:metadata":{}}`), zoned("a"))).To(Equal(1))
}

func TestAnApplierRefusesBadInputBeforeAnyRequest(t *testing.T) {
	f := newFixture(t)
	_, err := f.Apply(t.Context(), nil, nil, nil)
	f.Expect(err).To(MatchError(ContainSubstring("nil or has no name")))
	_, err = f.Apply(t.Context(), nil, nil, corev1apply.Node("").WithNamespace("ns"))
	f.Expect(err).To(MatchError(HavePrefix(`applying "ns/": the configuration is nil or has no name`)))
	_, err = f.Apply(t.Context(), nil, &patch.Options{Lock: true, Subresource: "scale"}, zoned("a"))
	f.Expect(err).To(MatchError(And(ContainSubstring("Options.Lock is true"), ContainSubstring(`Options.Subresource is "scale"`))))
	_, err = f.Apply(t.Context(), nil, asDoorman, zoned(strings.Repeat("a", patch.MaxBytes)))
	f.Expect(err).To(MatchError(And(HavePrefix(`applying "/n1": `), ContainSubstring("a server reads at most"))))
	f.Expect(f.server.asked).To(BeEmpty())
}

func TestAnApplierSendsAConfigurationOfTheSizeThatAServerReads(t *testing.T) {
	f := newFixture(t)
	without, err := json.Marshal(zoned(""))
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(f.asks(nil, zoned(strings.Repeat("a", patch.MaxBytes-len(without))))).To(Equal(1))
}

// unencodable is a configuration that has no JSON.
type unencodable struct {
	nameOnly
	Callback func() `json:"callback"`
}

func (*unencodable) Apply(context.Context, *unencodable, metav1.ApplyOptions) (*corev1.Node, error) {
	return nil, errors.New("sent")
}

func TestAnApplierRefusesAConfigurationThatCannotBeEncoded(t *testing.T) {
	_, err := patch.NewApplier(always(&unencodable{})).Apply(t.Context(), nil, asDoorman, &unencodable{})
	NewWithT(t).Expect(err).To(MatchError(And(ContainSubstring("encoding the configuration"), ContainSubstring("func()"))))
}

// nameOnly is a configuration that has no place for a UID.
type nameOnly struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
}

type applyingNames struct{ asked int }

func (a *applyingNames) Apply(context.Context, *nameOnly, metav1.ApplyOptions) (*corev1.Node, error) {
	a.asked++
	return applied(2, "doorman", `{"f:metadata":{}}`), nil
}

func TestAnApplierRefusesAConfigurationThatTheUIDCannotBePutInto(t *testing.T) {
	f, server, config := NewWithT(t), &applyingNames{}, &nameOnly{}
	config.Metadata.Name = "n1"
	cached := applied(1, "doorman", `{"f:metadata":{}}`)
	_, err := patch.NewApplier(always(server)).Apply(t.Context(), cached, asDoorman, config)
	f.Expect(err).To(MatchError(ContainSubstring("add the UID to it")))
	f.Expect(server.asked).To(BeZero())
}

func TestAnApplierWorksOnFakeClientsetsWhichHaveNoVersionsAndSoNeverSkip(t *testing.T) {
	f := NewWithT(t)
	applier := patch.NewApplier(patch.ClusterScoped(fake.NewClientset().CoreV1().Nodes()))
	got, err := applier.Apply(t.Context(), nil, nil, zoned("a"))
	f.Expect(err).NotTo(HaveOccurred())
	got, err = applier.Apply(t.Context(), got, nil, zoned("b"))
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(got.Labels).To(HaveKeyWithValue("zone", "b"))
}

// An answer may be from before the request: a cache between the program and the
// server has kept it. An answer of the same version is also right if another
// request has the same effect, and then it is sent once more.
func TestAnApplierDoesNotRememberAnotherRequestThatHasChangedNothing(t *testing.T) {
	f := newFixture(t)
	f.Expect(f.asks(nil, zoned("a"))).To(Equal(1))
	f.server.version = 0 // the next answer is as the last one was
	cached := applied(1, "doorman", `{"f:metadata":{}}`)
	f.Expect(f.asks(cached, zoned("b"))).To(Equal(1))
	f.Expect(f.asks(cached, zoned("b"))).To(Equal(1), "the answer had the version of a")
	cached = applied(2, "doorman", `{"f:metadata":{}}`)
	f.Expect(f.asks(cached, zoned("b"))).To(BeZero())
}
