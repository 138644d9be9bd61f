package main

import (
	"context"
	"slices"
	"strings"
)

// operator is a published program.
type operator struct {
	Name, Module, Version string
	Main                  string // the package of the program
	Caches                string // the cached kinds that affect the result, as the page shows them
	Changes               string // the kind of the objects that the benchmark changes: Pod or Secret
	Note                  string // other changes of the program, as the page shows them

	Replaces []string          // modules that its replace directives pin, with newer versions
	Files    map[string]string // the new text of files of the module, by path, in every variant
	Edits    []edit            // the edits of every variant
	Variants []variant

	Manifests []string          // files of the module to apply, as patterns
	Objects   string            // more objects to apply
	Config    map[string]string // the files of the program's working directory, besides kubeconfig and a certificate
	Args      []string

	Ready string // the text of a log line with which a controller reports that it is ready
	Times int    // the number of such lines that show that the whole program is ready

	Works func(w *world, ctx context.Context) error // returns an error if the operator does not do its work
}

// variant describes how an operator is changed to use one of the compared
// caches. The variant "released" has only the changes that every variant has.
type variant struct {
	Name  string
	Line  string // the changed line, as the page shows it
	Edits []edit
	Files map[string]string // the text of new files, by path
}

// edit replaces all occurrences of a text in a file.
type edit struct{ File, Old, New string }

// edits returns the edits of a variant by file. A file that only another
// variant changes has no edits, and is written as it was released.
func (o *operator) edits(v variant) map[string][]edit {
	byFile := map[string][]edit{}
	for _, alternative := range o.Variants {
		for _, e := range alternative.Edits {
			byFile[e.File] = nil
		}
	}
	for _, e := range slices.Concat(o.Edits, v.Edits) {
		byFile[e.File] = append(byFile[e.File], e)
	}
	return byFile
}

// Names of variants.
const (
	released = "released"
	informer = "informer"
	reusing  = "informer-reusing-specs"
	onDemand = "on-demand"
)

// managers returns the variants of a program that calls ctrl.NewManager once.
// file and call are the file and the text of that call, and options is the name
// of the variable that contains the manager's options.
func managers(file, call, options string) []variant {
	changed := func(name, line string, imports ...string) variant {
		text := "import (\n\t" + strings.Join(imports, "\n\t") + "\n"
		return variant{Name: name, Line: options + line, Edits: []edit{
			{file, call, options + line + "\n\t" + call}, {file, "import (\n", text},
		}}
	}
	return []variant{
		{Name: released},
		changed(informer, ".Cache.NewInformer = clientgo.NewSharedIndexInformer",
			`"github.com/homeostat/homeostat/informer/clientgo"`),
		changed(onDemand, ".NewCache = controllerruntime.NewCache(&controllerruntime.Options{"+
			"OnDemand: []object.Object{&core.Secret{}, &core.ConfigMap{}}})",
			`"github.com/homeostat/homeostat/controllerruntime"`,
			`object "sigs.k8s.io/controller-runtime/pkg/client"`, `core "k8s.io/api/core/v1"`),
	}
}

var operators = []operator{ //nolint:gochecknoglobals // a table
	{
		Name: "external-secrets", Module: "github.com/external-secrets/external-secrets", Version: "v0.20.4", Main: ".",
		Caches: "Secrets, ConfigMaps", Changes: "Secret",
		Note: "only the providers `fake` and `kubernetes` and three generators are linked. " +
			"50 ExternalSecrets have a store of the provider `fake`. The flags `--enable-secrets-caching` and " +
			"`--enable-configmaps-caching` are set.",
		Files: fewProviders, Edits: externalSecretsWebhooks,
		Variants:  managers("cmd/controller/root.go", "mgr, err := ctrl.NewManager(config, mgrOpts)", "mgrOpts"),
		Manifests: []string{"config/crds/bases/*.yaml"}, Objects: externalSecrets(50),
		Args: []string{
			"--enable-secrets-caching", "--enable-configmaps-caching", "--metrics-addr=0", "--live-addr=0",
		},
		Ready: "Starting workers", Times: 7, Works: (*world).repairsSecret,
	},
	{
		Name: "descheduler", Module: "sigs.k8s.io/descheduler", Version: "v0.36.0", Main: "./cmd/descheduler",
		Caches: "Pods", Changes: "Pod",
		Note: "`newPods` is the function of [Bring your operator](../bring-your-operator.md), for Pods. " +
			"The policy is `RemovePodsHavingTooManyRestarts`, every 30 seconds, and finds no Pod to evict.",
		Replaces: []string{"k8s.io/kube-openapi=k8s.io/kube-openapi@v0.0.0-20260721132016-d427ff9ee9ad"},
		Edits: []edit{{
			"pkg/framework/plugins/nodeutilization/usageclients.go",
			"results, warnings, err := promv1", "results, warnings, _, err := promv1",
		}}, // of Prometheus's client v1.25
		Variants: deschedulers(),
		Config:   map[string]string{"policy.yaml": deschedulerPolicy},
		Args: []string{
			"--policy-config-file=policy.yaml", "--descheduling-interval=30s", "--kubeconfig=kubeconfig",
			"--secure-port=0", "-v=1",
		},
		Ready: "Number of evictions/requests", Times: 1, Works: (*world).evictsPod,
	},
	{
		Name: "cluster-api", Module: "sigs.k8s.io/cluster-api", Version: "v1.14.2", Main: "./core",
		Caches: "metadata of all Secrets and ConfigMaps", Changes: "Secret",
		Note: "this is the core manager. It reads Secrets and ConfigMaps from the server, and needs the events of " +
			"objects that it has never read, so there is no variant on demand. Its webhooks listen on loopback, and " +
			"the server calls none. The line replaces an informer of Cluster API that has metrics of its own. " +
			"There is one Cluster, with a MachineDeployment without machines.",
		Replaces:  []string{"sigs.k8s.io/cluster-api/api=sigs.k8s.io/cluster-api/api@v1.14.2"},
		Edits:     []edit{{"core/main.go", "Port:     webhookPort", "Port: webhookPort, Host: \"127.0.0.1\""}},
		Variants:  clusters(),
		Manifests: []string{"core/config/crd/bases/*.yaml"}, Objects: clusterObjects(),
		Args: []string{
			"--health-addr=0", "--diagnostics-address=0", "--webhook-port=29443", "--webhook-cert-dir=.",
		},
		Ready: "Starting workers", Times: 10, Works: (*world).replacesMachineSet,
	},
	{
		Name: "source-controller", Module: "github.com/fluxcd/source-controller", Version: "v1.9.6", Main: ".",
		Caches: "Secrets", Changes: "Secret",
		Note: "this is Flux's. v1.10 needs Go 1.27. The feature gate `CacheSecretsAndConfigMaps` is set; " +
			"without it, the program caches none of this cluster's kinds, and asks the server in each reconcile. " +
			"50 HelmRepositories have a Secret with a password. Flux's module `pkg/artifact` is v0.18.1, because the " +
			"Go module proxy does not have v0.18.3.",
		Replaces: []string{
			"github.com/fluxcd/source-controller/api=github.com/fluxcd/source-controller/api@v1.9.6",
			"github.com/fluxcd/pkg/artifact=github.com/fluxcd/pkg/artifact@v0.18.1",
		},
		Variants:  managers("main.go", "mgr, err := ctrl.NewManager(restConfig, mgrConfig)", "mgrConfig"),
		Manifests: []string{"config/crd/bases/*.yaml"}, Objects: helmRepositories(50),
		Args: []string{
			"--feature-gates=CacheSecretsAndConfigMaps=true", "--metrics-addr=0", "--health-addr=0",
			"--storage-path=.", "--storage-addr=127.0.0.1:0", "--storage-adv-addr=127.0.0.1:1",
		},
		Ready: "Starting workers", Times: 5, Works: (*world).fetchesIndex,
	},
}
