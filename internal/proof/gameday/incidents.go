package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// incident is a failure that the game day causes.
type incident struct {
	name, effect, object string
	limit                time.Duration // how long to wait for an alert
	// breaks causes the failure. It returns a function that fixes the failure
	// as a person would.
	breaks func(ctx context.Context, w *world) (heal func(context.Context) error, err error)
}

var incidents = []incident{
	{
		name: "API server dead", effect: "the API server is killed, and started again",
		object: "the API server", limit: 2 * time.Minute, breaks: deadServer,
	},
	{
		name: "slow server", effect: "each answer of the API server arrives seven seconds late",
		object: "the way from the replicas to the API server: it is quick for other machines",
		limit:  4 * time.Minute, breaks: slow,
	},
	{
		name: "black-holed connection", effect: "no packet of any connection to the API server arrives",
		object: "the way from the replicas to the API server: it answers other machines",
		limit:  4 * time.Minute, breaks: swallowed,
	},
	{
		name: "clock", effect: "the clock of the leader's node is set back by two hours, to a time at which the " +
			"certificate of the API server is not valid, and all connections end once",
		object: "the clock of one node: it is two hours behind", limit: 4 * time.Minute, breaks: clockBehind,
	},
	{
		name: "clock ahead", effect: "the clock of the leader's node is set forward by two hours; every certificate is valid",
		object: "the clock of one node: it is two hours ahead", limit: 4 * time.Minute, breaks: clockAhead,
	},
	{
		name: "certificate", effect: "the server shows a certificate of next year, as every certificate is to a clock " +
			"that is a year behind",
		object: "the certificate that the replicas see: `date -u` says that the clocks agree",
		limit:  4 * time.Minute, breaks: certificateAhead,
	},
	{
		name: "disk full", effect: "etcd raises its alarm NOSPACE, as on a full disk: it stores nothing more",
		object: "etcd", limit: 4 * time.Minute, breaks: diskFull,
	},
	{
		name: "etcd dead", effect: "etcd is killed, and started again",
		object: "etcd", limit: 2 * time.Minute, breaks: deadStorage,
	},
	{
		name: "both replicas stopped", effect: "both processes are killed, and the kubelet waits before it starts them",
		object: "the Pods of mirror in namespace mirror", limit: 2 * time.Minute, breaks: stopped,
	},
	{
		name: "Lease held by a stranger", effect: "another client renews the Lease",
		object: "Lease mirror/mirror", limit: 2 * time.Minute, breaks: stranger,
	},
	{
		name: "permission taken", effect: "the role loses create and patch of Secrets",
		object: "ClusterRole mirror", limit: 6 * time.Minute, breaks: forbidden,
	},
	{
		name: "forbidden namespace", effect: "the role is bound in each namespace but team-0",
		object: "the RoleBinding in namespace team-0", limit: 6 * time.Minute, breaks: forbiddenNamespace,
	},
	{
		name: "fight", effect: "a tenant rewrites a copy every 50 ms",
		object: "Secret team-0/registry-password", limit: 5 * time.Minute, breaks: fight,
	},
	{
		name: "CRD gone", effect: "the CustomResourceDefinition is deleted",
		object: "CustomResourceDefinition secretmirrors.mirror.homeostat.dev", limit: 4 * time.Minute, breaks: withoutKind,
	},
	{
		name: "1,000 failing keys", effect: "a thousand mirrors name a source that does not exist",
		object: "Secret platform/lost, and 1,000 SecretMirrors", limit: 6 * time.Minute, breaks: failing,
	},
	{
		name: "expired token", effect: "the ServiceAccount is deleted, and with it its tokens",
		object: "ServiceAccount mirror/mirror", limit: 4 * time.Minute, breaks: expired,
	},
	{
		name: "undecodable object", effect: "a mirror whose source is a text gets past the schema",
		object: "SecretMirror odd", limit: 4 * time.Minute, breaks: undecodable,
	},
	{
		name: "node that does not come back", effect: "the leader is killed, and its node does not answer any more",
		object: "the node of one Pod", limit: 4 * time.Minute, breaks: withoutLeader,
	},
	{
		name: "crash loop", effect: "a replica is killed every five seconds",
		object: "Pod mirror/mirror-0", limit: 2 * time.Minute, breaks: crashLoop,
	},
}

func deadServer(_ context.Context, w *world) (func(context.Context) error, error) {
	return func(ctx context.Context) error {
		return errors.Join(w.Restart(ctx), w.proxy.open())
	}, errors.Join(w.KillAPIServer(), w.proxy.shut())
}

func deadStorage(_ context.Context, w *world) (func(context.Context) error, error) {
	return w.Restart, w.KillEtcd()
}

func stopped(_ context.Context, w *world) (func(context.Context) error, error) {
	w.replicas[0].stop()
	w.replicas[1].stop()
	return func(context.Context) error { return errors.Join(w.start(w.replicas[0]), w.start(w.replicas[1])) }, nil
}

// during calls do repeatedly in the background. pace is the pause between two
// calls. It returns a function that stops the calls, and so fixes the incident.
func during(ctx context.Context, pace time.Duration, do func() error) func(context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var going sync.WaitGroup
	going.Go(func() {
		for pause(ctx, pace) == nil {
			_ = do() // after an error, the next call tries again
		}
	})
	return func(context.Context) error {
		stop()
		going.Wait()
		return nil
	}
}

func crashLoop(ctx context.Context, w *world) (func(context.Context) error, error) {
	r := w.replicas[0]
	return during(ctx, 5*time.Second, func() error {
		r.stop()
		return w.start(r)
	}), nil
}

func stranger(ctx context.Context, w *world) (func(context.Context) error, error) {
	take := func() error { return w.take(ctx) }
	return during(ctx, 500*time.Millisecond, take), take()
}

// mayWrite sets the verbs that the program's role allows on Secrets in all
// namespaces.
func (w *world) mayWrite(ctx context.Context, verbs ...string) error {
	roles := w.admin.RbacV1().ClusterRoles()
	role, err := roles.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "secrets") })
	role.Rules[i].Verbs = verbs
	_, err = roles.Update(ctx, role, metav1.UpdateOptions{})
	return err
}

func forbidden(ctx context.Context, w *world) (func(context.Context) error, error) {
	err := w.mayWrite(ctx, "get", "list", "watch", "delete")
	return func(ctx context.Context) error {
		return w.mayWrite(ctx, "get", "list", "watch", "create", "patch", "delete")
	}, errors.Join(err, w.set(ctx))
}

func forbiddenNamespace(ctx context.Context, w *world) (func(context.Context) error, error) {
	const role = `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: writes},
		rules: [{apiGroups: [""], resources: [secrets], verbs: [create, patch]}]}`
	manifests := []string{role}
	for n := 1; n < tenants; n++ {
		manifests = append(manifests, fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding,
			metadata: {name: writes, namespace: team-%d}, subjects: [{kind: ServiceAccount, name: mirror, namespace: mirror}],
			roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: writes}}`, n))
	}
	if err := w.Apply(ctx, manifests...); err != nil {
		return nil, err
	}
	return forbidden(ctx, w)
}

func fight(ctx context.Context, w *world) (func(context.Context) error, error) {
	n := 0
	return during(ctx, 50*time.Millisecond, func() error {
		n++
		return w.rewrite("team-0", "mine-"+strconv.Itoa(n))
	}), nil
}

var (
	kinds = schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
	mirrors = schema.GroupVersionResource{Group: "mirror.homeostat.dev", Version: "v1alpha1", Resource: "secretmirrors"}
)

func withoutKind(ctx context.Context, w *world) (func(context.Context) error, error) {
	client, err := dynamic.NewForConfig(w.Config())
	if err != nil {
		return nil, err
	}
	err = client.Resource(kinds).Delete(ctx, mirrors.GroupResource().String(), metav1.DeleteOptions{})
	return func(ctx context.Context) error {
		for _, file := range []string{"crd.yaml", "sample.yaml"} {
			text, err := os.ReadFile(filepath.Join(w.root, "examples", name, "deploy", file))
			if err == nil {
				err = eventually(ctx, func() error { return w.Apply(ctx, string(text)) })
			}
			if err != nil {
				return err
			}
		}
		return nil
	}, err
}

func failing(ctx context.Context, w *world) (func(context.Context) error, error) {
	client, err := dynamic.NewForConfig(w.Config())
	if err != nil {
		return nil, err
	}
	for n := range 1000 {
		err := w.Apply(ctx, fmt.Sprintf(`{apiVersion: mirror.homeostat.dev/v1alpha1, kind: SecretMirror,
			metadata: {name: lost-%d, labels: {lost: "yes"}},
			spec: {source: {namespace: platform, name: lost}, namespaces: {matchLabels: {team: "no"}}}}`, n))
		if err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) error {
		return client.Resource(mirrors).DeleteCollection(ctx, metav1.DeleteOptions{},
			metav1.ListOptions{LabelSelector: "lost=yes"})
	}, nil
}

func expired(ctx context.Context, w *world) (func(context.Context) error, error) {
	err := w.admin.CoreV1().ServiceAccounts(name).Delete(ctx, name, metav1.DeleteOptions{})
	return func(ctx context.Context) error {
		const account = `{apiVersion: v1, kind: ServiceAccount, metadata: {name: mirror, namespace: mirror}}`
		return errors.Join(w.Apply(ctx, account), w.login(ctx))
	}, err
}

func undecodable(ctx context.Context, w *world) (func(context.Context) error, error) {
	client, err := dynamic.NewForConfig(w.Config())
	if err != nil {
		return nil, err
	}
	const anySchema = `[{"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema",
		"value":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}]`
	_, err = client.Resource(kinds).Patch(ctx, mirrors.GroupResource().String(), types.JSONPatchType, []byte(anySchema),
		metav1.PatchOptions{})
	if err != nil {
		return nil, err
	}
	err = eventually(ctx, func() error { // until the server has the new schema
		return w.Apply(ctx, `{apiVersion: mirror.homeostat.dev/v1alpha1, kind: SecretMirror, metadata: {name: odd},
			spec: {source: text}}`)
	})
	return func(ctx context.Context) error {
		text, err := os.ReadFile(filepath.Join(w.root, "examples", name, "deploy", "crd.yaml"))
		err = errors.Join(err, client.Resource(mirrors).Delete(ctx, "odd", metav1.DeleteOptions{}))
		return errors.Join(err, w.Apply(ctx, string(text)))
	}, err
}

// leader returns the replica that holds the Lease, or the first replica if no
// replica holds it.
func (w *world) leader(ctx context.Context) (*replica, error) {
	lease, err := w.admin.CoordinationV1().Leases(name).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	r := w.replicas[0]
	if lease.Spec.HolderIdentity != nil && strings.HasPrefix(*lease.Spec.HolderIdentity, w.replicas[1].identity) {
		r = w.replicas[1]
	}
	return r, nil
}

func withoutLeader(ctx context.Context, w *world) (func(context.Context) error, error) {
	r, err := w.leader(ctx)
	if err != nil {
		return nil, err
	}
	return func(context.Context) error { return errors.Join(r.findNode(), w.start(r)) }, r.loseNode()
}
