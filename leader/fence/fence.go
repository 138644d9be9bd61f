package fence

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/leader/internal/record"
)

// podName is the key of the extra field, in the user info of a request, that
// names the Pod to which the user's token is bound.
const podName = "authentication.kubernetes.io/pod-name"

// Options names the replicas whose writes are fenced, and the Lease that fences
// them. Namespace, Lease, ServiceAccount and Resources are required.
type Options struct {
	// Namespace is the namespace of the Lease and of the service account.
	Namespace string
	// Lease is the name of the Lease that was given to leader.New or shard.New.
	Lease string
	// ServiceAccount is the service account of the replicas' Pods. No other
	// client may use it, since its writes from outside these Pods are refused.
	ServiceAccount string
	// Resources are the resources that the replicas write under the Lease, for
	// example "configmaps", "deployments.apps" and
	// "widgets.example.com/status". A resource without a subresource includes
	// all its subresources.
	Resources []string
	// Shards fences each replica by the Lease of its own membership, and not by
	// one common Lease. Set Shards if the replicas divide their work with
	// package leader/shard.
	Shards bool
	// Name is the name of the policy and of its binding. Defaults to the Lease,
	// a dot and the Namespace.
	Name string
}

// Policy returns an admission policy that refuses writes of replicas that do
// not hold the Lease, and the binding of the policy. The policy refuses nothing
// while the Lease does not exist.
//
// Policy returns all mistakes in the options as one joined error.
func Policy(o Options) (
	*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding, error,
) {
	o.Name = cmp.Or(o.Name, o.Lease+"."+o.Namespace)
	rules, err := o.validate()
	if err != nil {
		return nil, nil, fmt.Errorf("making the policy of lease %q: %w", o.Namespace+"/"+o.Lease, err)
	}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		TypeMeta:   typeMeta("ValidatingAdmissionPolicy"),
		ObjectMeta: metav1.ObjectMeta{Name: o.Name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionregistrationv1.Fail),
			ParamKind: &admissionregistrationv1.ParamKind{
				APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease",
			},
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: rules},
			MatchConditions:  o.conditions(),
			Variables: []admissionregistrationv1.Variable{
				{Name: "pod", Expression: `request.userInfo.?extra[?` + quote(podName) + `][?0].orValue("")`},
				{Name: "holder", Expression: `params.?spec.?holderIdentity.orValue("")`},
			},
			Validations: []admissionregistrationv1.Validation{{
				Expression: o.expression(),
				Reason:     new(metav1.StatusReasonForbidden),
				MessageExpression: `"pod \"" + variables.pod + "\" may not write: lease \"" + params.metadata.namespace + "/" + ` +
					`params.metadata.name + "\" is held by \"" + variables.holder + "\""`,
			}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		TypeMeta:   typeMeta("ValidatingAdmissionPolicyBinding"),
		ObjectMeta: metav1.ObjectMeta{Name: o.Name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        o.Name,
			ParamRef:          o.param(),
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	return policy, binding, nil
}

// YAML returns the objects of [Policy] as a manifest for kubectl apply.
//
// YAML returns the errors of Policy.
func YAML(o Options) (string, error) {
	policy, binding, err := Policy(o)
	if err != nil {
		return "", err
	}
	var manifest strings.Builder
	for i, object := range []runtime.Object{policy, binding} {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return "", err
		}
		delete(content, "status")
		text, err := yaml.Marshal(content)
		if err != nil {
			return "", err
		}
		if i > 0 {
			manifest.WriteString("---\n")
		}
		manifest.Write(text)
	}
	return manifest.String(), nil
}

// conditions returns the conditions under which a write is checked: a replica
// has sent it, and its object is not one of the records that a replica must
// write to become the holder.
func (o Options) conditions() []admissionregistrationv1.MatchCondition {
	own := []string{`request.?name.orValue("") == ` + quote(o.Lease)}
	if o.Shards {
		own = append(own, `request.?name.orValue("").startsWith(`+quote(record.MemberPrefix(o.Lease))+`)`,
			`request.?name.orValue("").startsWith(`+quote(record.SlotPrefix(o.Lease))+`)`)
	}
	return []admissionregistrationv1.MatchCondition{
		{Name: "sent-by-a-replica", Expression: `request.userInfo.username == ` +
			quote("system:serviceaccount:"+o.Namespace+":"+o.ServiceAccount)},
		{Name: "not-to-its-records", Expression: `!(request.resource.group == ` + quote(coordinationv1.GroupName) +
			` && request.resource.resource == "leases" && request.?namespace.orValue("") == ` + quote(o.Namespace) +
			` && (` + strings.Join(own, " || ") + `))`},
	}
}

// expression returns the condition that a checked write must meet: the Pod that
// sent it is the holder. The name of a holder is <name of the Pod>_<random
// suffix>. Names of Pods contain no underscore. With shards, the server
// evaluates the condition once for each member's record, so the condition must
// also hold for the records of other Pods.
func (o Options) expression() string {
	held := `variables.holder.startsWith(variables.pod + "_")`
	if o.Shards {
		held = `(params.metadata.name != ` + quote(record.MemberPrefix(o.Lease)) + ` + variables.pod || ` + held + `)`
	}
	return `variables.pod != "" && ` + held
}

func (o Options) param() *admissionregistrationv1.ParamRef {
	ref := &admissionregistrationv1.ParamRef{
		Namespace: o.Namespace, ParameterNotFoundAction: new(admissionregistrationv1.AllowAction),
	}
	if o.Shards {
		ref.Selector = &metav1.LabelSelector{MatchLabels: record.MemberLabels(o.Lease)}
	} else {
		ref.Name = o.Lease
	}
	return ref
}

// validate returns the rules that match the resources, and the mistakes in the
// options.
func (o Options) validate() ([]admissionregistrationv1.NamedRuleWithOperations, error) {
	check := option.Of("fence.Options")
	for _, f := range []struct {
		field, value string
		check        func(string) []string
	}{
		{"Namespace", o.Namespace, validation.IsDNS1123Label},
		{"Lease", o.Lease, validation.IsDNS1123Subdomain},
		{"ServiceAccount", o.ServiceAccount, validation.IsDNS1123Subdomain},
		{"Name", o.Name, validation.IsDNS1123Subdomain},
	} {
		if faults := f.check(f.value); len(faults) > 0 {
			check.Wrong(f.field, f.value, "%s", faults[0])
		}
	}
	if faults := validation.IsValidLabelValue(o.Lease); o.Shards && len(faults) > 0 {
		check.Wrong("Lease", o.Lease, "must be a valid label value, because Shards is set: %s", faults[0])
	}
	var rules []admissionregistrationv1.NamedRuleWithOperations
	for i, named := range o.Resources {
		resourceGroup, subresource, isSub := strings.Cut(named, "/")
		resource, group, _ := strings.Cut(resourceGroup, ".")
		faults := validation.IsDNS1123Label(resource)
		if group != "" {
			faults = append(faults, validation.IsDNS1123Subdomain(group)...)
		}
		if isSub && subresource != "*" {
			faults = append(faults, validation.IsDNS1123Label(subresource)...)
		}
		if len(faults) > 0 {
			check.Wrong(fmt.Sprintf("Resources[%d]", i), named, "must be like pods, deployments.apps or pods/status")
			continue
		}
		resources := []string{resource, resource + "/*"}
		if isSub {
			resources = []string{resource + "/" + subresource}
		}
		rules = append(rules, admissionregistrationv1.NamedRuleWithOperations{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: resources,
				},
			},
		})
	}
	check.That(len(o.Resources) > 0, "Resources", o.Resources, "must list the resources that the replicas write")
	return rules, check.Err()
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: kind}
}

// quote returns s as a string literal of CEL.
func quote(s string) string { return strconv.Quote(s) }
