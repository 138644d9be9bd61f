package fence_test

import (
	"fmt"

	"github.com/homeostat/homeostat/leader/fence"
)

// An administrator applies the manifest once.
func ExampleYAML() {
	manifest, err := fence.YAML(fence.Options{
		Namespace: "shop", Lease: "website", ServiceAccount: "website-operator",
		Resources: []string{"deployments.apps", "websites.example.com/status"},
	})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Print(manifest)
	// Output:
	// apiVersion: admissionregistration.k8s.io/v1
	// kind: ValidatingAdmissionPolicy
	// metadata:
	//   name: website.shop
	// spec:
	//   failurePolicy: Fail
	//   matchConditions:
	//   - expression: request.userInfo.username == "system:serviceaccount:shop:website-operator"
	//     name: sent-by-a-replica
	//   - expression: '!(request.resource.group == "coordination.k8s.io" && request.resource.resource
	//       == "leases" && request.?namespace.orValue("") == "shop" && (request.?name.orValue("")
	//       == "website"))'
	//     name: not-to-its-records
	//   matchConstraints:
	//     resourceRules:
	//     - apiGroups:
	//       - apps
	//       apiVersions:
	//       - '*'
	//       operations:
	//       - '*'
	//       resources:
	//       - deployments
	//       - deployments/*
	//     - apiGroups:
	//       - example.com
	//       apiVersions:
	//       - '*'
	//       operations:
	//       - '*'
	//       resources:
	//       - websites/status
	//   paramKind:
	//     apiVersion: coordination.k8s.io/v1
	//     kind: Lease
	//   validations:
	//   - expression: variables.pod != "" && variables.holder.startsWith(variables.pod +
	//       "_")
	//     messageExpression: '"pod \"" + variables.pod + "\" may not write: lease \"" +
	//       params.metadata.namespace + "/" + params.metadata.name + "\" is held by \""
	//       + variables.holder + "\""'
	//     reason: Forbidden
	//   variables:
	//   - expression: request.userInfo.?extra[?"authentication.kubernetes.io/pod-name"][?0].orValue("")
	//     name: pod
	//   - expression: params.?spec.?holderIdentity.orValue("")
	//     name: holder
	// ---
	// apiVersion: admissionregistration.k8s.io/v1
	// kind: ValidatingAdmissionPolicyBinding
	// metadata:
	//   name: website.shop
	// spec:
	//   paramRef:
	//     name: website
	//     namespace: shop
	//     parameterNotFoundAction: Allow
	//   policyName: website.shop
	//   validationActions:
	//   - Deny
}

// The objects can be created by a tool other than kubectl.
func ExamplePolicy() {
	policy, binding, err := fence.Policy(fence.Options{
		Namespace: "shop", Lease: "website", ServiceAccount: "website-operator", Resources: []string{"configmaps"}, Shards: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(policy.Spec.Validations[0].Expression)
	fmt.Println(binding.Spec.ParamRef.Selector.MatchLabels)
	// Output:
	// variables.pod != "" && (params.metadata.name != "website-member-" + variables.pod || variables.holder.startsWith(variables.pod + "_"))
	// map[leader.homeostat.dev/record:member leader.homeostat.dev/shards:website]
}
