package apisim

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// serverVersion is the answer of /version. It is the version of the server
// whose answers the conformance test records.
const serverVersion = "v1.36.3"

// catalogue answers requests for the description of a server's API: discovery
// and schemas.
type catalogue struct{ *Server }

// discovery answers a request for the server's resources, schemas, version or
// health. It returns false for other requests. Requests for discovery never
// park: a program's RESTMapper makes them once, and the answer is the same in
// every run.
func (s catalogue) discovery(req *http.Request) (*output, bool) {
	if req.Method != http.MethodGet {
		return nil, false
	}
	path := strings.TrimSuffix(req.URL.Path, "/")
	aggregated := strings.Contains(req.Header.Get("Accept"), "as=APIGroupDiscoveryList")
	p := strings.Split(path, "/")[1:]
	switch {
	case path == "/version":
		return encoded(version.Info{Major: "1", Minor: "36", GitVersion: serverVersion, Platform: "linux/amd64"})
	case path == "/healthz" || path == "/livez" || path == "/readyz":
		return &output{code: http.StatusOK, body: []byte("ok"), media: plainText}, true
	case path == "/api" && aggregated, path == "/apis" && aggregated:
		return s.aggregated(path == "/api")
	case path == "/api":
		return encoded(metav1.APIVersions{
			TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{
				{ClientCIDR: "0.0.0.0/0", ServerAddress: "apisim"},
			},
		})
	case path == "/apis":
		return encoded(metav1.APIGroupList{
			TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: s.groups(),
		})
	case len(p) == 2 && p[0] == "apis":
		return s.group(p[1])
	case len(p) == 2 && p[0] == "api":
		return s.resourceList(schema.GroupVersion{Version: p[1]})
	case len(p) == 3 && p[0] == "apis":
		return s.resourceList(schema.GroupVersion{Group: p[1], Version: p[2]})
	}
	return s.openAPI(path)
}

// unserved answers a request about a group without served resources with 404,
// and a request about Options.Silent as the aggregator does. In a request for
// schemas, the version must have served resources, too. unserved returns false
// for all other requests.
func (s catalogue) unserved(path string) (*output, bool) {
	path, schemas := strings.CutPrefix(path, openAPIPath+"/")
	p := strings.Split(strings.Trim(path, "/"), "/")
	gv := schema.GroupVersion{}
	switch {
	case p[0] == "api" && len(p) > 1:
		gv.Version = p[1]
	case p[0] == "apis" && len(p) > 1:
		gv.Group = p[1]
		if len(p) > 2 {
			gv.Version = p[2]
		}
	case !schemas:
		return nil, false
	}
	if gv == s.opts.Silent && !gv.Empty() {
		return silent(), true
	}
	for _, t := range s.ordered { // never changes
		if t.res.Group == gv.Group && (!schemas || t.res.Version == gv.Version) {
			return nil, false
		}
	}
	if isReview(schema.GroupVersionResource{Group: gv.Group}) {
		return nil, false
	}
	return &output{code: http.StatusNotFound, body: []byte("404 page not found\n"), media: plainText}, true
}

const plainText = "text/plain; charset=utf-8"

func encoded(v any) (*output, bool) {
	body, err := json.Marshal(v)
	if err != nil {
		return &output{code: http.StatusInternalServerError, body: []byte(err.Error())}, true
	}
	return &output{code: http.StatusOK, body: body}, true
}

// versions lists the groups and versions that discovery shows: the core group
// first, then the others by name. Options.Silent is one of them.
func (s catalogue) versions() []schema.GroupVersion {
	var versions []schema.GroupVersion
	for _, r := range s.discoverable() {
		if gv := r.gvk().GroupVersion(); !slices.Contains(versions, gv) {
			versions = append(versions, gv)
		}
	}
	if !s.opts.Silent.Empty() {
		versions = append(versions, s.opts.Silent)
	}
	slices.SortStableFunc(versions, func(a, b schema.GroupVersion) int { return strings.Compare(a.Group, b.Group) })
	return versions
}

func (s catalogue) discoverable() []Resource { return slices.Concat(s.Resources(), reviews) }

func (s catalogue) groups() []metav1.APIGroup {
	groups := []metav1.APIGroup{}
	for _, gv := range s.versions() {
		if gv.Group == "" {
			continue
		}
		v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		if n := len(groups); n > 0 && groups[n-1].Name == gv.Group {
			groups[n-1].Versions = append(groups[n-1].Versions, v)
			continue
		}
		groups = append(groups, metav1.APIGroup{
			Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v,
		})
	}
	return groups
}

func (s catalogue) group(name string) (*output, bool) {
	for _, g := range s.groups() {
		if g.Name == name {
			g.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
			return encoded(g)
		}
	}
	return nil, false
}

// silent returns the answer of the aggregator for an API server that does not
// answer.
func silent() *output {
	return &output{code: http.StatusServiceUnavailable, body: []byte("service unavailable\n"), media: plainText}
}

func (s catalogue) resourceList(gv schema.GroupVersion) (*output, bool) {
	if gv == s.opts.Silent && !gv.Empty() {
		return silent(), true
	}
	list := metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(),
	}
	for _, r := range s.discoverable() {
		if r.gvk().GroupVersion() != gv {
			continue
		}
		names := r.names()
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: r.Resource, SingularName: names.singular, Namespaced: r.Namespaced, Kind: r.Kind,
			Verbs: r.verbs(), ShortNames: names.short, Categories: names.categories,
		})
		for _, sub := range r.subresources() {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: r.Resource + "/" + sub.name, Namespaced: r.Namespaced, Group: sub.kind.Group,
				Version: sub.kind.Version, Kind: sub.kind.Kind, Verbs: sub.verbs,
			})
		}
	}
	if len(list.APIResources) == 0 {
		return nil, false
	}
	return encoded(list)
}

// aggregated returns the whole discovery of the core group, or of all other
// groups, in one answer.
func (s catalogue) aggregated(core bool) (*output, bool) {
	list := discoveryv2.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"},
	}
	for _, gv := range s.versions() {
		if (gv.Group == "") != core {
			continue
		}
		if n := len(list.Items); n == 0 || list.Items[n-1].Name != gv.Group {
			list.Items = append(list.Items, discoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: gv.Group}})
		}
		g := &list.Items[len(list.Items)-1]
		freshness := discoveryv2.DiscoveryFreshnessCurrent
		if gv == s.opts.Silent {
			freshness = discoveryv2.DiscoveryFreshnessStale
		}
		g.Versions = append(g.Versions, discoveryv2.APIVersionDiscovery{
			Version: gv.Version, Freshness: freshness, Resources: s.aggregatedResources(gv),
		})
	}
	answer, ok := encoded(list)
	answer.media = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	return answer, ok
}

func (s catalogue) aggregatedResources(gv schema.GroupVersion) []discoveryv2.APIResourceDiscovery {
	var resources []discoveryv2.APIResourceDiscovery
	for _, r := range s.discoverable() {
		if r.gvk().GroupVersion() != gv {
			continue
		}
		names, kind := r.names(), metav1.GroupVersionKind(r.gvk())
		info := discoveryv2.APIResourceDiscovery{
			Resource: r.Resource, ResponseKind: &kind, Scope: discoveryv2.ScopeCluster, SingularResource: names.singular,
			Verbs: r.verbs(), ShortNames: names.short, Categories: names.categories,
		}
		if r.Namespaced {
			info.Scope = discoveryv2.ScopeNamespace
		}
		for _, sub := range r.subresources() {
			kind := metav1.GroupVersionKind(sub.kind)
			info.Subresources = append(info.Subresources, discoveryv2.APISubresourceDiscovery{
				Subresource: sub.name, ResponseKind: &kind, Verbs: sub.verbs,
			})
		}
		resources = append(resources, info)
	}
	return resources
}

// subresourceInfo is one subresource as discovery lists it.
type subresourceInfo struct {
	name  string
	kind  schema.GroupVersionKind
	verbs []string
}

func (r Resource) subresources() []subresourceInfo {
	var list []subresourceInfo
	if r.Status {
		list = append(list, subresourceInfo{name: "status", kind: r.gvk(), verbs: []string{"get", "patch", "update"}})
	}
	if r.builtin.scale {
		scale := schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
		list = append(list, subresourceInfo{name: "scale", kind: scale, verbs: []string{"get", "patch", "update"}})
	}
	switch r.Group + "/" + r.Resource {
	case "/pods":
		eviction := schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}
		list = append(list, subresourceInfo{name: "eviction", kind: eviction, verbs: []string{"create"}},
			subresourceInfo{
				name: "binding", kind: schema.GroupVersionKind{Version: "v1", Kind: "Binding"}, verbs: []string{"create"},
			})
	case "/namespaces":
		list = append(list, subresourceInfo{name: "finalize", kind: r.gvk(), verbs: []string{"update"}})
	}
	return list
}

func (r Resource) verbs() []string {
	if r.builtin.review {
		return []string{"create"}
	}
	if r.Group == "" && r.Resource == "namespaces" {
		return []string{"create", "delete", "get", "list", "patch", "update", "watch"}
	}
	return []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
}

// aliases are the other names of a resource.
type aliases struct {
	singular          string
	short, categories []string
}

// shortNames maps the built-in resources to their short names.
var shortNames = map[string][]string{
	"configmaps": {"cm"}, "controllerrevisions": {}, "cronjobs": {"cj"}, "daemonsets": {"ds"}, "deployments": {"deploy"},
	"endpoints": {"ep"}, "events": {"ev"}, "horizontalpodautoscalers": {"hpa"}, "ingresses": {"ing"},
	"limitranges": {"limits"}, "namespaces": {"ns"}, "networkpolicies": {"netpol"}, "nodes": {"no"},
	"persistentvolumeclaims": {"pvc"}, "persistentvolumes": {"pv"}, "poddisruptionbudgets": {"pdb"}, "pods": {"po"},
	"priorityclasses": {"pc"}, "replicasets": {"rs"}, "replicationcontrollers": {"rc"}, "resourcequotas": {"quota"},
	"serviceaccounts": {"sa"}, "services": {"svc"}, "statefulsets": {"sts"}, "storageclasses": {"sc"},
}

// inAll lists the resources of "kubectl get all".
var inAll = []string{
	"cronjobs", "daemonsets", "deployments", "horizontalpodautoscalers", "jobs", "pods", "replicasets",
	"replicationcontrollers", "services", "statefulsets",
}

func (r Resource) names() aliases {
	n := aliases{singular: r.Singular, short: r.ShortNames, categories: r.Categories}
	if n.singular == "" {
		n.singular = strings.ToLower(r.Kind)
	}
	if !r.builtin.typed {
		return n
	}
	n.short = shortNames[r.Resource]
	if slices.Contains(inAll, r.Resource) {
		n.categories = []string{"all"}
	}
	return n
}
