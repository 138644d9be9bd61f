package supervisor

import (
	"fmt"
	"path/filepath"
	"strings"
)

// The components, by the name of their sub-command.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
)

// Components returns the names of all components in the order of their start.
func Components() []string {
	return []string{Etcd, APIServer, ControllerManager, Scheduler}
}

// A component describes one child process: its command line, and the URLs that
// answer 200 when it is ready.
type component struct {
	name  string
	args  []string
	ready []string
}

func (d *dataDir) components(o *Options) []component {
	components := []component{d.etcd(), d.apiServer(), d.controllerManager()}
	if o.Scheduler {
		components = append(components, d.scheduler())
	}
	for i := range components {
		components[i].args = append(components[i].args, o.Flags[components[i].name]...)
	}
	return components
}

func (d *dataDir) etcd() component {
	client, peer := "http://"+address(d.ports.Etcd), "http://"+address(d.ports.EtcdPeer)
	return component{
		name: Etcd,
		args: []string{
			"--name=default",
			"--data-dir=" + filepath.Join(d.path, "etcd"),
			"--listen-client-urls=" + client,
			"--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer,
			"--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=default=" + peer,
			// Written data survives the death of the process; only a crash of
			// the machine would need fsync.
			"--unsafe-no-fsync=true",
			"--log-level=warn",
		},
		ready: []string{client + "/health"},
	}
}

func (d *dataDir) apiServer() component {
	server := d.server()
	return component{
		name: APIServer,
		args: []string{
			"--bind-address=" + host,
			fmt.Sprintf("--secure-port=%d", d.ports.APIServer),
			// Loopback addresses are no legal endpoints, so the kubernetes
			// Service gets none.
			"--advertise-address=" + host,
			"--endpoint-reconciler-type=none",
			"--etcd-servers=http://" + address(d.ports.Etcd),
			"--service-cluster-ip-range=10.0.0.0/24",
			"--authorization-mode=RBAC",
			"--client-ca-file=" + d.pki(caCert),
			"--tls-cert-file=" + d.pki(serverCert),
			"--tls-private-key-file=" + d.pki(serverKey),
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + d.pki(accountKey),
			"--service-account-signing-key-file=" + d.pki(accountKey),
			"--allow-privileged=true",
			// Without a kubelet, the not-ready taint would stay on a new Node.
			"--disable-admission-plugins=TaintNodesByCondition",
			"--max-requests-inflight=2000",
			"--max-mutating-requests-inflight=1000",
			"--profiling=false",
		},
		ready: []string{
			server + "/readyz",
			server + "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/cluster-admin",
			server + "/api/v1/namespaces/default",
			server + "/api/v1/namespaces/kube-system",
		},
	}
}

func (d *dataDir) controllerManager() component {
	return component{
		name: ControllerManager,
		args: []string{
			"--kubeconfig=" + d.file("controller-manager.kubeconfig"),
			"--secure-port=0",
			"--leader-elect=false",
			"--root-ca-file=" + d.pki(caCert),
			"--service-account-private-key-file=" + d.pki(accountKey),
			"--controllers=*,-" + strings.Join(controllersOff(), ",-"),
			"--kube-api-qps=1000",
			"--kube-api-burst=2000",
			"--profiling=false",
		},
		ready: []string{
			d.server() + "/api/v1/namespaces/default/serviceaccounts/default",
			d.server() + "/api/v1/namespaces/default/configmaps/kube-root-ca.crt",
		},
	}
}

// controllersOff returns the names of controllers that need a kubelet, a cloud
// or a signer, or that react to its absence.
func controllersOff() []string {
	return []string{
		"node-lifecycle-controller", "taint-eviction-controller", "device-taint-eviction-controller",
		"pod-garbage-collector-controller", "node-ipam-controller", "ttl-controller",
		"persistentvolume-attach-detach-controller", "persistentvolume-expander-controller",
		"persistentvolume-binder-controller", "certificatesigningrequest-signing-controller",
		"certificatesigningrequest-approving-controller", "certificatesigningrequest-cleaner-controller",
		"bootstrap-signer-controller", "token-cleaner-controller", "horizontal-pod-autoscaler-controller",
		"legacy-serviceaccount-token-cleaner-controller", "resourceclaim-controller",
	}
}

func (d *dataDir) scheduler() component {
	config := d.file("scheduler.kubeconfig")
	return component{
		name: Scheduler,
		args: []string{
			"--kubeconfig=" + config,
			"--authentication-kubeconfig=" + config,
			"--authorization-kubeconfig=" + config,
			"--authentication-skip-lookup=true",
			"--bind-address=" + host,
			fmt.Sprintf("--secure-port=%d", d.ports.Scheduler),
			"--tls-cert-file=" + d.pki(serverCert),
			"--tls-private-key-file=" + d.pki(serverKey),
			"--leader-elect=false",
			"--profiling=false",
		},
		ready: []string{"https://" + address(d.ports.Scheduler) + "/readyz"},
	}
}
