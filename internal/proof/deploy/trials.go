package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// trial is one install.yaml and the exercise of its programs.
type trial struct {
	name        string // the name of the folder
	namespace   string // the namespace of the programs; defaults to name
	programs    []string
	withoutPage bool
	flags       map[string][]string // additional flags by program that replace features that this machine does not have
	exercise    func(ctx context.Context, r *running)
	// seldom contains the permissions that a program may leave unused in its
	// trial, with the reason why the program has them.
	seldom map[string]string
}

func (t trial) namespaceOf() string { return cmp.Or(t.namespace, t.name) }

func (t trial) programsOf() []string {
	if len(t.programs) > 0 {
		return t.programs
	}
	return []string{t.name}
}

// notFound returns nil if err says that an object is not found, and err
// otherwise.
func notFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

const (
	hotLoop     = "a warning of package reconcile, when a key writes the same again and again"
	series      = "client-go sends it for the second of two equal events"
	conflict    = "for a write that another has overtaken"
	deleted     = "for a status that is not found: package patch asks whether the object or the subresource is missing"
	staleCreate = "for a create that finds an object which the cache does not have yet"
	lists       = "for servers that stream no lists: here, a watch delivers them"
)

var trials = []trial{
	{name: "podlog", exercise: podlog, seldom: map[string]string{"list pods": lists}},
	{name: "pod-runtime", exercise: podRuntime, seldom: map[string]string{
		"patch events.events.k8s.io": series,
	}},
	{name: "configmap-from-crs", exercise: configMapFromCRs, seldom: map[string]string{
		"create events.events.k8s.io": hotLoop, "patch events.events.k8s.io": hotLoop,
		"get settings.config.homeostat.dev": deleted,
	}},
	{name: "mirror", exercise: mirrored, seldom: map[string]string{
		"get secrets": staleCreate, "patch events.events.k8s.io": series,
	}},
	{name: "namespace-defaults", exercise: namespaceDefaults, seldom: map[string]string{
		"patch events.events.k8s.io": series,
	}},
	{name: "dns-zone", exercise: dnsZone, seldom: map[string]string{
		"list services": lists, "create events.events.k8s.io": hotLoop, "patch events.events.k8s.io": hotLoop,
	}},
	{name: "ingress-per-service", exercise: ingressPerService, seldom: map[string]string{
		"patch events.events.k8s.io": series,
	}},
	{name: "website", exercise: websites, seldom: map[string]string{
		"get deployments.apps": staleCreate, "get services": staleCreate,
		"update websites/finalizers.web.homeostat.dev": "some servers ask for it: OwnerReferencesPermissionEnforcement",
		"patch events.events.k8s.io":                   series,
	}},
	{name: "observe", namespace: "set-owner", programs: []string{"set-owner"}, withoutPage: true, exercise: observe},
	{
		name: "reboot", programs: []string{"reboot-controller", "reboot-agent"}, exercise: reboot,
		seldom: map[string]string{
			"list nodes": lists, "patch events.events.k8s.io": series, "get rebootgroups.reboot.homeostat.dev": conflict,
		},
		flags: map[string][]string{"reboot-agent": {
			"--reboot-method=command", "--reboot-command=/ko-app/agent --version", "--reboot-sentinel-period=1s",
		}},
	},
}

func podlog(ctx context.Context, r *running) {
	r.apply(ctx, `{apiVersion: v1, kind: Pod, metadata: {name: seen}, spec: {containers: [{name: c, image: none}]}}`)
	r.logged(ctx, `"name":"seen"`)
	r.remove(ctx, "pods", "seen")
}

func podRuntime(ctx context.Context, r *running) {
	pod := func(namespace string) {
		r.apply(ctx, `{apiVersion: v1, kind: Namespace, metadata: {name: `+namespace+`}}`,
			`{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: `+namespace+`}}`,
			`{apiVersion: v1, kind: Pod, metadata: {name: runs, namespace: `+namespace+`},
			spec: {nodeName: `+node+`, containers: [{name: c, image: none}]}}`)
		r.change(ctx, "pods", namespace, "runs", `{"status":{"phase":"Running","startTime":"2026-01-01T00:00:00Z",
			"containerStatuses":[{"name":"c","ready":true,"restartCount":0,"image":"none","imageID":"none",
			"state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}}}]}}`, "status")
	}
	pod("runtime")
	r.awaitText(ctx, "configmaps", "runtime", "pod-runtime", `"data"`)
	r.change(ctx, "configmaps", "runtime", "pod-runtime", `{"data":null}`)
	r.awaitText(ctx, "configmaps", "runtime", "pod-runtime", `"data"`)
	// Another client's object of that name.
	r.apply(ctx, `{apiVersion: v1, kind: Namespace, metadata: {name: taken}}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: pod-runtime, namespace: taken}}`)
	pod("taken")
	r.warned(ctx, "taken", "NameTaken")
}

func configMapFromCRs(ctx context.Context, r *running) {
	const settings = "settings.config.homeostat.dev/v1alpha1"
	r.apply(ctx, `{apiVersion: config.homeostat.dev/v1alpha1, kind: Setting, metadata: {name: colour},
		spec: {key: colour, value: red}}`)
	r.awaitText(ctx, "configmaps", "default", "settings", `"colour":"red"`)
	r.awaitText(ctx, settings, "default", "colour", `"Published"`)
	r.change(ctx, "configmaps", "default", "settings", `{"data":{"colour":"blue"}}`)
	r.awaitText(ctx, "configmaps", "default", "settings", `"colour":"red"`)
	r.whileStopped(ctx, func() { r.remove(ctx, settings, "colour") })
	r.awaitDeleted(ctx, "configmaps", "default", "settings")
}

func mirrored(ctx context.Context, r *running) {
	const kind, secrets, name = "secretmirrors.mirror.homeostat.dev/v1alpha1", "secrets", "registry-password"
	const one, two, theirs = `"b25l"`, `"dHdv"`, `"dGhlaXJz"`
	team := func(name string) string {
		return `{apiVersion: v1, kind: Namespace, metadata: {name: ` + name + `, labels: {team: "yes"}}}`
	}
	manifest, err := os.ReadFile(filepath.Join(r.root, "examples", "mirror", "deploy", "sample.yaml"))
	r.step(func() error { return err })
	r.apply(ctx, `{apiVersion: v1, kind: Namespace, metadata: {name: platform}}`, team("red"), team("blue"),
		`{apiVersion: v1, kind: Secret, metadata: {name: registry-password, namespace: platform}, stringData: {is: one}}`,
		string(manifest))
	r.awaitText(ctx, secrets, "red", name, one)
	r.awaitText(ctx, secrets, "blue", name, one)
	r.awaitText(ctx, kind, "", "registry", `"Copied"`)
	r.change(ctx, secrets, "red", name, `{"data":{"is":null}}`)
	r.awaitText(ctx, secrets, "red", name, one)
	r.change(ctx, secrets, "platform", name, `{"stringData":{"is":"two"}}`)
	r.awaitText(ctx, secrets, "blue", name, two)
	r.change(ctx, "namespaces", "", "blue", `{"metadata":{"labels":{"team":null}}}`)
	r.awaitDeleted(ctx, secrets, "blue", name)
	// Another client's Secret of that name.
	r.apply(ctx, `{apiVersion: v1, kind: Namespace, metadata: {name: green}}`,
		`{apiVersion: v1, kind: Secret, metadata: {name: registry-password, namespace: green}, stringData: {is: theirs}}`)
	r.change(ctx, "namespaces", "", "green", `{"metadata":{"labels":{"team":"yes"}}}`)
	r.warned(ctx, "default", "Conflict")
	r.awaitText(ctx, kind, "", "registry", `"Conflict"`)
	r.whileStopped(ctx, func() {
		r.step(func() error { return r.client(kind, "").Delete(ctx, "registry", metav1.DeleteOptions{}) })
	})
	r.awaitDeleted(ctx, secrets, "red", name)
	r.awaitText(ctx, secrets, "green", name, theirs)
}

func namespaceDefaults(ctx context.Context, r *running) {
	const name, exempt = "namespace-defaults", `{"metadata":{"labels":{"defaults.homeostat.dev/exempt":%s}}}`
	r.apply(ctx, `{apiVersion: v1, kind: Namespace, metadata: {name: team}}`)
	r.awaitText(ctx, "resourcequotas", "team", name, `"pods":"100"`)
	r.awaitText(ctx, "limitranges", "team", name, `"512Mi"`)
	r.awaitText(ctx, "namespaces", "", "team", `"platform-team"`)
	r.change(ctx, "resourcequotas", "team", name, `{"spec":{"hard":{"pods":"1"}}}`)
	r.change(ctx, "limitranges", "team", name, `{"spec":{"limits":[]}}`)
	r.awaitText(ctx, "resourcequotas", "team", name, `"pods":"100"`)
	r.awaitText(ctx, "limitranges", "team", name, `"512Mi"`)
	r.change(ctx, "namespaces", "", "team", fmt.Sprintf(exempt, `"true"`))
	r.awaitDeleted(ctx, "resourcequotas", "team", name)
	r.awaitDeleted(ctx, "limitranges", "team", name)
	// Other clients' objects of that name, seen twice.
	r.apply(ctx, `{apiVersion: v1, kind: ResourceQuota, metadata: {name: namespace-defaults, namespace: team}, spec: {}}`)
	r.change(ctx, "namespaces", "", "team", fmt.Sprintf(exempt, "null"))
	r.warned(ctx, "default", "NameTaken")
	r.change(ctx, "namespaces", "", "team", `{"metadata":{"labels":{"changed":"once"}}}`)
}

func dnsZone(ctx context.Context, r *running) {
	zone := filepath.Join(r.containers[0].root, "zone", "db.svc.example.com")
	record := func(want bool) {
		r.await(ctx, func() error {
			content, err := os.ReadFile(zone)
			if err == nil && bytes.Contains(content, []byte("shop")) != want {
				err = fmt.Errorf("the zone has a record of the Service: got %t, want %t\n%s", !want, want, content)
			}
			return err
		})
	}
	r.apply(ctx, `{apiVersion: v1, kind: Service, metadata: {name: shop}, spec: {ports: [{port: 80}]}}`)
	record(true)
	r.whileStopped(ctx, func() { r.remove(ctx, "services", "shop") })
	record(false)
}

func ingressPerService(ctx context.Context, r *running) {
	const ingresses, former = "ingresses.networking.k8s.io", "ingress-per-service-member-former"
	// A replica that has left, whose record the others delete after a while.
	r.apply(ctx, `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: `+former+`,
		namespace: ingress-per-service, labels: {leader.homeostat.dev/shards: ingress-per-service,
		leader.homeostat.dev/record: member}}, spec: {}}`)
	service := func(name string) string {
		return `{apiVersion: v1, kind: Service, metadata: {name: ` + name + `,
			annotations: {ingress.homeostat.dev/expose: "true"}}, spec: {ports: [{port: 80}]}}`
	}
	r.apply(ctx, service("web"))
	r.awaitText(ctx, ingresses, "default", "web", `web.default.example.com`)
	r.change(ctx, ingresses, "default", "web", `{"spec":{"rules":[{"host":"other.example.com"}]}}`)
	r.awaitText(ctx, ingresses, "default", "web", `web.default.example.com`)
	r.whileStopped(ctx, func() { r.remove(ctx, "services", "web") })
	r.awaitDeleted(ctx, ingresses, "default", "web")
	// Another client's Ingress of that name.
	r.apply(ctx, `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: foreign},
		spec: {defaultBackend: {service: {name: foreign, port: {number: 80}}}}}`, service("foreign"))
	r.warned(ctx, "default", "IngressNotOurs")
	r.awaitDeleted(ctx, "leases.coordination.k8s.io", "ingress-per-service", former)
}

func websites(ctx context.Context, r *running) {
	const kind, deployments = "websites.web.homeostat.dev", "deployments.apps"
	manifest, err := os.ReadFile(filepath.Join(r.root, "examples", "website", "shop.yaml"))
	r.step(func() error { return err })
	permission, site, _ := strings.Cut(string(manifest), "---\napiVersion: v1\nkind: Secret\n")
	r.apply(ctx, permission)
	r.awaitPermission(ctx, "website", "default", authorizationv1.ResourceAttributes{
		Verb: "list", Resource: "secrets", Name: "shop-settings",
	})
	r.apply(ctx, "apiVersion: v1\nkind: Secret\n"+site)
	r.awaitText(ctx, deployments, "default", "shop", `"nginxinc/nginx-unprivileged"`)
	r.awaitText(ctx, "services", "default", "shop", `"targetPort":8080`)
	r.awaitText(ctx, kind, "default", "shop", `"Incomplete"`)
	r.warned(ctx, "default", "Incomplete")
	r.change(ctx, deployments, "default", "shop", `{"spec":{"replicas":5}}`)
	r.awaitText(ctx, deployments, "default", "shop", `"replicas":2`)
	r.change(ctx, "services", "default", "shop", `{"spec":{"selector":{"a":"b"}}}`)
	r.awaitText(ctx, "services", "default", "shop", `"web.homeostat.dev/`)
	// Children that it does not want.
	uid := r.uid(ctx, kind, "default", "shop")
	owned := func(kind, group, spec string) string {
		return `{apiVersion: ` + group + `, kind: ` + kind + `, metadata: {name: surplus,
			labels: {app.kubernetes.io/managed-by: website}, ownerReferences: [{apiVersion: web.homeostat.dev/v1,
			kind: Website, name: shop, uid: ` + string(uid) + `, controller: true, blockOwnerDeletion: true}]},
			spec: ` + spec + `}`
	}
	r.apply(ctx, owned("Deployment", "apps/v1", `{selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}},
		spec: {containers: [{name: c, image: none}]}}}`), owned("Service", "v1", `{ports: [{port: 80}]}`))
	r.awaitDeleted(ctx, deployments, "default", "surplus")
	r.awaitDeleted(ctx, "services", "default", "surplus")
	r.remove(ctx, kind, "shop")
	r.awaitDeleted(ctx, kind, "default", "shop")
}

func observe(ctx context.Context, r *running) {
	r.apply(ctx, `{apiVersion: v1, kind: Namespace, metadata: {name: orphan}}`)
	r.awaitText(ctx, "namespaces", "", "orphan", `"owner":"platform-team"`)
}

func reboot(ctx context.Context, r *running) {
	const key = "reboot.homeostat.dev/"
	root := r.containers[1].root
	write := func(path, text string) {
		r.step(func() error { return os.WriteFile(filepath.Join(root, path), []byte(text), 0o644) })
	}
	boot := func(id string) {
		write("proc/sys/kernel/random/boot_id", id+"\n")
		r.change(ctx, "nodes", "", node, `{"status":{"nodeInfo":{"bootID":"`+id+`"},
			"conditions":[{"type":"Ready","status":"True"}]}}`, "status")
	}
	boot("boot-1")
	// A Pod that a drain evicts.
	r.apply(ctx, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: drained, namespace: default}, spec: {
		selector: {matchLabels: {app.kubernetes.io/name: drained}}, template: {
		metadata: {labels: {app.kubernetes.io/name: drained}},
		spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: none}]}}}}`)
	r.step(func() error { _, err := r.placed(ctx, "default", "drained"); return err })
	write("sentinel/reboot-required", "") // as its other container does
	r.awaitText(ctx, "nodes", "", node, key+"reboot-in-progress")
	boot("boot-2")
	r.awaitText(ctx, "nodes", "", node, key+"last-reboot")
}
