//go:build e2e

package trial_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// script runs observe once with the scripts of a folder, as its README says,
// in a folder for its files and with variables for it.
func script(code int, dir string, variables []string, args ...string) *gexec.Session {
	GinkgoHelper()
	for i, argument := range args {
		if rest, ok := strings.CutPrefix(argument, "./"); ok {
			args[i] = filepath.Join(scripts, rest)
		}
	}
	c := command(cluster.Kubeconfig(), binary, append([]string{"--once"}, args...)...)
	c.Dir = dir
	c.Env = append(c.Env, variables...)
	s := started(c)
	Eventually(s, patience).Should(gexec.Exit(code))
	return s
}

func content(dir, name string) string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

var _ = Describe("The scripts", func() {
	var (
		ns, dir string
		in      string // --namespace
	)

	BeforeEach(func(ctx SpecContext) {
		ns, dir = namespace(ctx), GinkgoT().TempDir()
		in = "--namespace=" + ns
	})

	It("record: a line for each Service, also after deletions while down", func(ctx SpecContext) {
		run := func() {
			GinkgoHelper()
			script(0, dir, nil, "services", in, "--template", "{.spec.clusterIP}",
				"--names", "./record/known.sh", "--delete", "./record/forget.sh", "--", "./record/record.sh")
		}
		a := service(ctx, ns, "a")
		service(ctx, ns, "b")
		run()
		first := content(dir, "services.txt")
		Expect(first).To(MatchRegexp(`^` + ns + `/a 10\.\S+\n` + ns + `/b 10\.\S+\n$`))
		run()
		Expect(content(dir, "services.txt")).To(Equal(first))
		removeService(ctx, ns, "b")
		service(ctx, ns, "a-b")
		run()
		Expect(content(dir, "services.txt")).To(MatchRegexp(
			`^` + ns + `/a ` + a.Spec.ClusterIP + `\n` + ns + `/a-b 10\.\S+\n$`))
	}, SpecTimeout(2*time.Minute))

	It("set-owner: an owner for each namespace, and never a different one", func(ctx SpecContext) {
		mine := namespace(ctx)
		_, err := user.CoreV1().Namespaces().Apply(ctx, ownedBy(mine, "me"), metav1.ApplyOptions{FieldManager: "me"})
		Expect(err).NotTo(HaveOccurred())
		script(0, dir, []string{"OWNER=team"}, "namespaces", "--template", "{.metadata.resourceVersion}",
			"--template", "{.metadata.annotations.owner}", "--template", "{.metadata.deletionTimestamp}", "--", "./set-owner/set-owner.sh")
		Expect(ownerOf(ctx, ns)).To(Equal("team"))
		Expect(ownerOf(ctx, mine)).To(Equal("me"))
	}, SpecTimeout(2*time.Minute))

	It("ingress: created, restored, left alone, and deleted though its Service went while down", func(ctx SpecContext) {
		run := func() *gexec.Session {
			GinkgoHelper()
			return script(0, dir, nil, "services", in, "--template", "{.spec.ports[0].port}",
				"--names", "./ingress/names.sh", "--delete", "./ingress/delete.sh", "--", "./ingress/create.sh")
		}
		ingresses := user.NetworkingV1().Ingresses(ns)
		foreign := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: networkingv1.IngressSpec{
			DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
				Name: "x", Port: networkingv1.ServiceBackendPort{Number: 1},
			}},
		}}
		_, err := ingresses.Create(ctx, foreign, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		for _, name := range []string{"a", "b", "c"} {
			service(ctx, ns, name)
		}
		run()
		Expect(namesOf(ctx, ns)).To(Equal("a b c"))
		removeService(ctx, ns, "a")
		removeService(ctx, ns, "c")
		Expect(ingresses.Delete(ctx, "b", metav1.DeleteOptions{})).To(Succeed())
		s := run()
		Expect(namesOf(ctx, ns)).To(Equal("b c"))
		Expect(ingresses.Get(ctx, "c", metav1.GetOptions{})).To(HaveField("Spec.DefaultBackend", Not(BeNil())))
		Expect(logs(s)).To(ContainSubstring("1 deletions"))

		_, err = user.CoreV1().Services(ns).Patch(ctx, "b", types.MergePatchType,
			[]byte(`{"spec":{"type":"ExternalName","externalName":"example.com","ports":null,"clusterIP":null,"clusterIPs":null}}`),
			metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		run()
		Expect(namesOf(ctx, ns)).To(Equal("c"), "without a port, there is nothing to reach")
	}, SpecTimeout(2*time.Minute))

	It("quota: one for each namespace", func(ctx SpecContext) {
		script(0, dir, []string{"QUOTA=pods=7"}, "namespaces", "--field-selector=metadata.name="+ns, "--template", "{.status.phase}", "--", "./quota/quota.sh")
		quota, err := user.CoreV1().ResourceQuotas(ns).Get(ctx, "default", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(quota.Spec.Hard).To(Equal(corev1.ResourceList{"pods": resource.MustParse("7")}))
		// Its status is the quota controller's, so the resourceVersion may go
		// on.
		script(0, dir, []string{"QUOTA=pods=8"}, "namespaces", "--field-selector=metadata.name="+ns, "--template", "{.status.phase}", "--", "./quota/quota.sh")
		Expect(user.CoreV1().ResourceQuotas(ns).Get(ctx, "default", metav1.GetOptions{})).To(
			HaveField("Spec.Hard", quota.Spec.Hard))
	}, SpecTimeout(2*time.Minute))

	It("notify-not-ready: each change is said once", func(ctx SpecContext) {
		nodes := user.CoreV1().Nodes()
		node, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "observe-"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		run := func() string {
			GinkgoHelper()
			return out(script(0, dir, nil, "nodes", "-q", "--field-selector=metadata.name="+node.Name,
				"--template", `{.status.conditions[?(@.type=="Ready")].status}`,
				"--names", "./notify-not-ready/names.sh", "--delete", "./notify-not-ready/gone.sh", "--", "./notify-not-ready/notify.sh"))
		}
		Expect(run()).To(Equal("node " + node.Name + " is not ready (Ready is not known)\n"))
		Expect(run()).To(BeEmpty())
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(run()).To(Equal("node " + node.Name + " is ready again\n"))
		Expect(os.WriteFile(filepath.Join(dir, "not-ready", node.Name), nil, 0o600)).To(Succeed())
		Expect(nodes.Delete(ctx, node.Name, metav1.DeleteOptions{})).To(Succeed())
		Expect(run()).To(BeEmpty())
		Expect(filepath.Join(dir, "not-ready", node.Name)).NotTo(BeAnExistingFile())
	}, SpecTimeout(2*time.Minute))

	It("dns-zone: records that are ours, and a serial that grows with changes", func(ctx SpecContext) {
		const zone = "$ORIGIN example.com.\n@ IN SOA ns root (\n  41 ; serial\n  3600 600 86400 60 )\nmail IN A 192.0.2.1\n"
		Expect(os.WriteFile(filepath.Join(dir, "zone.db"), []byte(zone), 0o600)).To(Succeed())
		run := func() string {
			GinkgoHelper()
			script(0, dir, nil, "services", in, "--template", "{.spec.clusterIP}",
				"--names", "./dns-zone/known.sh", "--delete", "./dns-zone/forget.sh", "--", "./dns-zone/record.sh")
			return content(dir, "zone.db")
		}
		a := service(ctx, ns, "a")
		record := "a." + ns + " IN A " + a.Spec.ClusterIP + " ; observe " + ns + "/a\n"
		Expect(run()).To(Equal(strings.Replace(zone, "41", "42", 1) + record))
		Expect(run()).To(Equal(strings.Replace(zone, "41", "42", 1) + record))
		removeService(ctx, ns, "a")
		Expect(run()).To(Equal(strings.Replace(zone, "41", "43", 1)))
	}, SpecTimeout(2*time.Minute))

	It("nfs-export: a volume and an export for each claim of the class", func(ctx SpecContext) {
		claims := user.CoreV1().PersistentVolumeClaims(ns)
		for name, class := range map[string]string{"data": "nfs", "other": "fast"} {
			_, err := claims.Create(ctx, &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: corev1.PersistentVolumeClaimSpec{
					StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
				},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		variables := []string{"ROOT=" + filepath.Join(dir, "root"), "SERVER=nfs1"}
		run := func() {
			GinkgoHelper()
			script(0, dir, variables, "pvc", in, "--template", "{.spec.storageClassName}", "--template", "{.spec.resources.requests.storage}",
				"--names", "./nfs-export/names.sh", "--delete", "./nfs-export/unexport.sh", "--", "./nfs-export/export.sh")
		}
		run()
		path := filepath.Join(dir, "root", ns, "data")
		Expect(path).To(BeADirectory())
		Expect(content(dir, "exports")).To(Equal(path + " *(rw,no_subtree_check) # " + ns + "/data\n"))
		Expect(volumesOf(ctx, ns)).To(ConsistOf(HaveField("Spec.NFS.Path", path)))
		run()
		Expect(volumesOf(ctx, ns)).To(HaveLen(1))

		Expect(claims.Delete(ctx, "data", metav1.DeleteOptions{})).To(Succeed())
		_, err := claims.Patch(ctx, "data", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		Expect(err).To(Or(Succeed(), Satisfy(apierrors.IsNotFound)), "no controller here checks whether it is in use")
		Eventually(ctx, func() error { return getErr(claims.Get(ctx, "data", metav1.GetOptions{})) }, patience).ShouldNot(Succeed())
		run()
		Eventually(ctx, func() []corev1.PersistentVolume { return volumesOf(ctx, ns) }, patience).Should(BeEmpty())
		Expect(content(dir, "exports")).To(BeEmpty())
		Expect(path).To(BeADirectory(), "the data stay")
	}, SpecTimeout(3*time.Minute))

	It("reap-restarts: Pods that restart too often, and have an owner", func(ctx SpecContext) {
		pods := user.CoreV1().Pods(ns)
		for name, restarts := range map[string]int32{"often": 60, "seldom": 40, "lonely": 60} {
			pod := podNamed(name)
			pod.Spec.SchedulerName = "none" // or it would edit the Pod meanwhile
			if name != "lonely" {
				pod.OwnerReferences = []metav1.OwnerReference{{
					APIVersion: "v1", Kind: "Namespace", Name: ns, UID: namespaceUID(ctx, ns), Controller: new(true),
				}}
			}
			made, err := pods.Create(ctx, pod, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			made.Status.ContainerStatuses = []corev1.ContainerStatus{
				{Name: "a", RestartCount: restarts}, {Name: "b", RestartCount: restarts},
			}
			_, err = pods.UpdateStatus(ctx, made, metav1.UpdateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		notify := filepath.Join(dir, "notify")
		Expect(os.WriteFile(notify, []byte("#!/bin/sh\necho \"$1\" >>told\n"), 0o700)).To(Succeed())
		script(0, dir, []string{"NOTIFY=" + notify}, "pods", in, "--template", "{.metadata.uid}", "--template", "{.metadata.ownerReferences[?(@.controller==true)].name}",
			"--template", "{.status.containerStatuses[*].restartCount}", "--", "./reap-restarts/reap.sh")
		Eventually(ctx, func() (names []string, err error) {
			all, err := pods.List(ctx, metav1.ListOptions{})
			for _, pod := range all.Items {
				if pod.DeletionTimestamp == nil {
					names = append(names, pod.Name)
				}
			}
			return names, err
		}, patience).Should(ConsistOf("seldom", "lonely"))
		Expect(content(dir, "told")).To(Equal("Pod " + ns + "/often of " + ns + " is deleted after 120 restarts\n"))
		events, err := user.CoreV1().Events(ns).List(ctx, metav1.ListOptions{FieldSelector: "reason=Reaped"})
		Expect(err).NotTo(HaveOccurred())
		Expect(events.Items).To(ConsistOf(And(HaveField("InvolvedObject.Name", "often"), HaveField("Type", "Warning"),
			HaveField("Message", "deleted after 120 restarts, so that its owner makes a new one"))))
	}, SpecTimeout(2*time.Minute))

	It("failed-scheduling: the Deployment says since when, and why", func(ctx SpecContext) {
		lonely := podNamed("lonely")
		lonely.Spec.NodeSelector = map[string]string{"no": "where"}
		_, err := user.CoreV1().Pods(ns).Create(ctx, lonely, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		deployments := user.AppsV1().Deployments(ns)
		template := corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: *lonely.Spec.DeepCopy(),
		}
		_, err = deployments.Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(2)), Template: template,
				Selector: &metav1.LabelSelector{MatchLabels: template.Labels},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		c := command(cluster.Kubeconfig(), binary, "--listen-addr=", "events", in,
			"--field-selector=reason=FailedScheduling,involvedObject.kind=Pod", "--template", "{.involvedObject.name}",
			"--template", "{.involvedObject.uid}", "--template", "{.message}", "--template", "{.metadata.creationTimestamp}",
			"--template", "{.lastTimestamp}", "--template", "{.series.lastObservedTime}",
			"--", filepath.Join(scripts, "failed-scheduling/annotate.sh"))
		started(c)
		told := And(HaveKeyWithValue("failed-scheduling", MatchRegexp(`^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\S*Z$`)),
			HaveKeyWithValue("failed-scheduling-message", MatchRegexp(`^(web-\S+|lonely): .*nodes`)))
		Eventually(ctx, func() (map[string]string, error) {
			d, err := deployments.Get(ctx, "web", metav1.GetOptions{})
			return d.Annotations, err
		}, patience).Should(told)
		Eventually(ctx, func() (map[string]string, error) {
			pod, err := user.CoreV1().Pods(ns).Get(ctx, "lonely", metav1.GetOptions{})
			return pod.Annotations, err
		}, patience).Should(told)
		pods, err := user.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		Expect(err).NotTo(HaveOccurred())
		Expect(pods.Items).To(HaveEach(HaveField("Annotations", Not(HaveKey("failed-scheduling")))))
	}, SpecTimeout(2*time.Minute))

	It("inventory: a line for each node, also after deletions while down", func(ctx SpecContext) {
		nodes := user.CoreV1().Nodes()
		var names []string
		for _, address := range []string{"192.0.2.1", "192.0.2.2"} {
			node, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				GenerateName: "observe-", Labels: map[string]string{"inventory": ns},
			}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			node.Status.Addresses = []corev1.NodeAddress{{Type: "Hostname", Address: "x"}, {Type: "InternalIP", Address: address}}
			_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func(ctx SpecContext) { _ = nodes.Delete(ctx, node.Name, metav1.DeleteOptions{}) }) // or the test has
			names = append(names, node.Name)
		}
		run := func() string {
			GinkgoHelper()
			script(0, dir, nil, "nodes", "-l", "inventory="+ns, "--template", `{.status.addresses[?(@.type=="InternalIP")].address}`,
				"--names", "./inventory/known.sh", "--delete", "./inventory/remove.sh", "--", "./inventory/add.sh")
			return content(dir, "inventory.txt")
		}
		lines := []string{names[0] + " 192.0.2.1\n", names[1] + " 192.0.2.2\n"}
		slices.Sort(lines)
		Expect(run()).To(Equal(lines[0] + lines[1]))
		Expect(nodes.Delete(ctx, names[0], metav1.DeleteOptions{})).To(Succeed())
		Expect(run()).To(Equal(names[1] + " 192.0.2.2\n"))
	}, SpecTimeout(2*time.Minute))

	It("tidy-completed: Pods that are done go after a while, and not earlier", func(ctx SpecContext) {
		pods := user.CoreV1().Pods(ns)
		for name, ago := range map[string]time.Duration{"old": time.Hour, "young": 0, "running": 0} {
			pod := podNamed(name)
			pod.Spec.SchedulerName = "nobody" // or it would edit the Pod meanwhile
			made, err := pods.Create(ctx, pod, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			if made.Status.Phase = corev1.PodSucceeded; name == "running" {
				made.Status.Phase = corev1.PodRunning
			}
			for i, container := range []string{"a", "b"} {
				ended := metav1.NewTime(time.Now().Add(-ago - time.Duration(i)*time.Hour))
				made.Status.ContainerStatuses = append(made.Status.ContainerStatuses, corev1.ContainerStatus{
					Name: container, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: ended}},
				})
			}
			_, err = pods.UpdateStatus(ctx, made, metav1.UpdateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		left := func() (names []string, err error) {
			all, err := pods.List(ctx, metav1.ListOptions{})
			for _, pod := range all.Items {
				if pod.DeletionTimestamp == nil {
					names = append(names, pod.Name)
				}
			}
			return names, err
		}
		args := []string{
			"pods", in, "--field-selector=status.phase=Succeeded", "--template", "{.metadata.uid}",
			"--template", "{.status.phase}", "--template", "{.status.containerStatuses[*].state.terminated.finishedAt}",
		}
		script(0, dir, []string{"AFTER=1800"}, append(slices.Clone(args), "--", "./tidy-completed/tidy.sh")...)
		Eventually(ctx, left, patience).Should(ConsistOf("young", "running"))
		c := command(cluster.Kubeconfig(), binary, append(args, "--listen-addr=", "--resync-period=1s",
			"--", filepath.Join(scripts, "tidy-completed/tidy.sh"))...)
		c.Env = append(c.Env, "AFTER=5")
		started(c) // it is too early at first, and nothing changes
		Eventually(ctx, left, patience).Should(ConsistOf("running"))
	}, SpecTimeout(2*time.Minute))
})

func podNamed(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64),
		Containers:                    []corev1.Container{{Name: "a", Image: "none"}, {Name: "b", Image: "none"}},
	}}
}

func getErr[T any](_ T, err error) error { return err }

// namesOf returns the names of all Ingresses, in order.
func namesOf(ctx context.Context, ns string) string {
	GinkgoHelper()
	all, err := user.NetworkingV1().Ingresses(ns).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, i := range all.Items {
		names = append(names, i.Name)
	}
	return strings.Join(names, " ")
}

// volumesOf returns the volumes that are reserved for claims of a namespace.
func volumesOf(ctx context.Context, ns string) (volumes []corev1.PersistentVolume) {
	GinkgoHelper()
	all, err := user.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	for _, v := range all.Items {
		if v.Spec.ClaimRef != nil && v.Spec.ClaimRef.Namespace == ns && v.DeletionTimestamp == nil {
			volumes = append(volumes, v)
		}
	}
	return volumes
}
