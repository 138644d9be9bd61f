//go:build e2e

package patch_test

import (
	"context"
	"fmt"
	"math/rand"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/patch"
)

func pick[E any](r *rand.Rand, from ...E) E { return from[r.Intn(len(from))] }

// shuffle returns the list with one thing done to it: something added, removed
// or moved.
func shuffle[E any](r *rand.Rand, list []E, fresh E) []E {
	switch n := len(list); {
	case r.Intn(3) == 0 || n == 0:
		at := r.Intn(n + 1)
		return append(list[:at:at], append([]E{fresh}, list[at:]...)...)
	case r.Intn(2) == 0:
		at := r.Intn(n)
		return append(list[:at:at], list[at+1:]...)
	default:
		i, j := r.Intn(n), r.Intn(n)
		list[i], list[j] = list[j], list[i]
		return list
	}
}

func words(r *rand.Rand, m map[string]string) map[string]string {
	switch r.Intn(4) {
	case 0:
		return nil
	case 1:
		for k := range m {
			delete(m, k)
			break
		}
		return m
	}
	if m == nil {
		m = map[string]string{}
	}
	m[pick(r, "a", "b", "example.com/c")] = pick(r, "", "x", "y")
	return m
}

func someMetadata(r *rand.Rand, o informer.Object) {
	switch r.Intn(3) {
	case 0:
		o.SetLabels(words(r, o.GetLabels()))
	case 1:
		o.SetAnnotations(words(r, o.GetAnnotations()))
	default:
		f := pick(r, "example.com/a", "example.com/b", "example.com/c")
		var without []string
		for _, have := range o.GetFinalizers() {
			if have != f {
				without = append(without, have)
			}
		}
		if r.Intn(2) == 0 {
			without = append(without, f)
		}
		o.SetFinalizers(without)
	}
}

func podTemplate(r *rand.Rand, s *corev1.PodSpec) {
	switch r.Intn(8) {
	case 0:
		name := fmt.Sprintf("c%d", r.Intn(100))
		s.Containers = shuffle(r, s.Containers, corev1.Container{Name: name, Image: "img"})
	case 1:
		name := fmt.Sprintf("v%d", r.Intn(100))
		s.Volumes = shuffle(r, s.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	case 2:
		for i := range s.Volumes {
			source := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: pick(r, "x", "y")}}}
			if r.Intn(2) == 0 {
				source = corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: pick(r, "x", "y")}}
			}
			s.Volumes[i].VolumeSource = source
		}
	case 3:
		s.NodeSelector = words(r, s.NodeSelector)
	case 4:
		s.Tolerations = shuffle(r, s.Tolerations, corev1.Toleration{Key: pick(r, "k", "l"), Operator: corev1.TolerationOpExists})
	case 5:
		s.HostAliases = shuffle(r, s.HostAliases, corev1.HostAlias{IP: fmt.Sprintf("1.1.1.%d", r.Intn(200)), Hostnames: []string{"h"}})
	default:
		if len(s.Containers) > 0 {
			containerEdit(r, &s.Containers[r.Intn(len(s.Containers))])
		}
	}
}

func containerEdit(r *rand.Rand, c *corev1.Container) {
	switch r.Intn(6) {
	case 0:
		c.Image = pick(r, "img", "img:2", "img:3")
	case 1:
		name := fmt.Sprintf("E%d", r.Intn(5))
		c.Env = shuffle(r, c.Env, corev1.EnvVar{Name: name, Value: pick(r, "", "1", "2")})
	case 2: // the same port twice: its merge key is not unique
		c.Ports = shuffle(r, c.Ports, corev1.ContainerPort{ContainerPort: pick[int32](r, 53, 80), Protocol: pick(r, corev1.ProtocolTCP, corev1.ProtocolUDP)})
	case 3:
		c.Resources.Requests = pick(r, nil, corev1.ResourceList{"cpu": resource.MustParse(pick(r, "1", "500m", "0.5"))},
			corev1.ResourceList{"memory": resource.MustParse("1Gi")})
	case 4:
		c.LivenessProbe = pick(r, nil, &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}},
			&corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("http")}}})
	default:
		c.Args = shuffle(r, c.Args, pick(r, "-a", "-b"))
	}
}

var _ = Describe("The server agrees with", Ordered, func() {
	template := corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "img"}, {Name: "d", Image: "img"}}}

	It("edits of Pods and their status", func(ctx SpecContext) {
		c := typed.CoreV1().Pods(space)
		_, err := c.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: template}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		agree(ctx, c, "p", patch.Options{},
			func(r *rand.Rand, p *corev1.Pod) { someMetadata(r, p) },
			func(r *rand.Rand, p *corev1.Pod) {
				p.Spec.Containers[r.Intn(2)].Image = pick(r, "img", "img:2", "img:3")
			},
			func(r *rand.Rand, p *corev1.Pod) {
				p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprint("k", r.Intn(9)), Operator: corev1.TolerationOpExists})
			})
		agree(ctx, c, "p", patch.Options{Subresource: "status"},
			func(r *rand.Rand, p *corev1.Pod) {
				p.Status.Conditions = shuffle(r, p.Status.Conditions, corev1.PodCondition{
					Type: corev1.PodConditionType(fmt.Sprint("example.com/t", r.Intn(50))), Status: corev1.ConditionTrue, LastProbeTime: metav1.Now().Rfc3339Copy(),
				})
			},
			func(r *rand.Rand, p *corev1.Pod) { p.Status.Message = pick(r, "", "a", "b\n\"c\" <é>") },
			func(r *rand.Rand, p *corev1.Pod) {
				p.Status.PodIPs = pick(r, nil, []corev1.PodIP{{IP: "10.0.0.1"}}, []corev1.PodIP{{IP: "10.0.0.2"}, {IP: "fd00::1"}})
				p.Status.PodIP = ""
				if len(p.Status.PodIPs) > 0 {
					p.Status.PodIP = p.Status.PodIPs[0].IP
				}
			})
	})

	It("edits of Nodes and their status", func(ctx SpecContext) {
		c := typed.CoreV1().Nodes()
		_, err := c.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		agree(ctx, c, "n", patch.Options{},
			func(r *rand.Rand, n *corev1.Node) { someMetadata(r, n) },
			func(r *rand.Rand, n *corev1.Node) { n.Spec.Unschedulable = r.Intn(2) == 0 },
			func(r *rand.Rand, n *corev1.Node) {
				n.Spec.Taints = shuffle(r, n.Spec.Taints, corev1.Taint{Key: fmt.Sprint("k", r.Intn(50)), Effect: corev1.TaintEffectNoSchedule})
			})
		agree(ctx, c, "n", patch.Options{Subresource: "status"},
			func(r *rand.Rand, n *corev1.Node) {
				n.Status.Conditions = shuffle(r, n.Status.Conditions, corev1.NodeCondition{
					Type: corev1.NodeConditionType(fmt.Sprint("T", r.Intn(50))), Status: pick(r, corev1.ConditionTrue, corev1.ConditionFalse),
				})
			},
			func(r *rand.Rand, n *corev1.Node) {
				n.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse(pick(r, "1", "2", "2500m")), "memory": resource.MustParse(pick(r, "1Gi", "1024Mi"))}
			},
			func(r *rand.Rand, n *corev1.Node) {
				n.Status.Images = shuffle(r, n.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprint(r.Intn(9))}, SizeBytes: r.Int63()})
			},
			func(r *rand.Rand, n *corev1.Node) {
				n.Status.Addresses = shuffle(r, n.Status.Addresses, corev1.NodeAddress{Type: pick(r, corev1.NodeInternalIP, corev1.NodeHostName), Address: fmt.Sprint("10.0.0.", r.Intn(9))})
			})
	})

	It("edits of Deployments and their status", func(ctx SpecContext) {
		c := typed.AppsV1().Deployments(space)
		none := int32(0)
		labels := map[string]string{"app": "d"}
		_, err := c.Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: appsv1.DeploymentSpec{
			Replicas: &none, Paused: true, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: template},
		}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		agree(ctx, c, "d", patch.Options{},
			func(r *rand.Rand, d *appsv1.Deployment) { someMetadata(r, d) },
			func(r *rand.Rand, d *appsv1.Deployment) { podTemplate(r, &d.Spec.Template.Spec) },
			func(r *rand.Rand, d *appsv1.Deployment) { podTemplate(r, &d.Spec.Template.Spec) },
			func(r *rand.Rand, d *appsv1.Deployment) {
				d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
				if one := intstr.FromString(pick(r, "10%", "20%")); r.Intn(2) == 0 {
					d.Spec.Strategy = appsv1.DeploymentStrategy{
						Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &one},
					}
				}
			})
		agree(ctx, c, "d", patch.Options{Subresource: "status"},
			func(r *rand.Rand, d *appsv1.Deployment) {
				d.Status.Conditions = shuffle(r, d.Status.Conditions, appsv1.DeploymentCondition{
					Type: appsv1.DeploymentConditionType(fmt.Sprint("T", r.Intn(50))), Status: corev1.ConditionTrue,
				})
			},
			func(_ *rand.Rand, d *appsv1.Deployment) { d.Status.ObservedGeneration++ })
	})

	It("edits of Services and their status", func(ctx SpecContext) {
		c := typed.CoreV1().Services(space)
		nodePorts := false // they are chosen at random
		_, err := c.Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: &nodePorts,
			Ports: []corev1.ServicePort{port("dns", 53, "UDP"), port("dns-tcp", 53, "TCP")},
		}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		agree(ctx, c, "s", patch.Options{},
			func(r *rand.Rand, s *corev1.Service) { someMetadata(r, s) },
			func(r *rand.Rand, s *corev1.Service) {
				n := pick[int32](r, 53, 80, 81, 82)
				s.Spec.Ports = shuffle(r, s.Spec.Ports, port(fmt.Sprint("p", r.Intn(99)), n, pick(r, corev1.ProtocolTCP, corev1.ProtocolUDP)))
			},
			func(r *rand.Rand, s *corev1.Service) { s.Spec.Selector = words(r, s.Spec.Selector) },
			func(r *rand.Rand, s *corev1.Service) {
				s.Spec.ExternalIPs = shuffle(r, s.Spec.ExternalIPs, fmt.Sprint("9.9.9.", 1+r.Intn(9)))
			})
		agree(ctx, c, "s", patch.Options{Subresource: "status"},
			func(r *rand.Rand, s *corev1.Service) {
				s.Status.LoadBalancer.Ingress = shuffle(r, s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: fmt.Sprint("9.9.9.", 1+r.Intn(9))})
			},
			func(r *rand.Rand, s *corev1.Service) {
				s.Status.Conditions = shuffle(r, s.Status.Conditions, metav1.Condition{
					Type: fmt.Sprint("T", r.Intn(50)), Status: "True", Reason: "R", LastTransitionTime: metav1.Now().Rfc3339Copy(),
				})
			})
	})

	It("edits of Ingresses", func(ctx SpecContext) {
		c := typed.NetworkingV1().Ingresses(space)
		backend := func(r *rand.Rand) networkingv1.IngressBackend {
			return networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
				Name: pick(r, "a", "b"), Port: networkingv1.ServiceBackendPort{Number: pick[int32](r, 80, 81)},
			}}
		}
		first := backend(rand.New(rand.NewSource(1)))
		_, err := c.Create(ctx, &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "i"}, Spec: networkingv1.IngressSpec{DefaultBackend: &first}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		prefix := networkingv1.PathTypePrefix
		agree(ctx, c, "i", patch.Options{},
			func(r *rand.Rand, i *networkingv1.Ingress) { someMetadata(r, i) },
			func(r *rand.Rand, i *networkingv1.Ingress) { b := backend(r); i.Spec.DefaultBackend = &b },
			func(r *rand.Rand, i *networkingv1.Ingress) {
				i.Spec.TLS = shuffle(r, i.Spec.TLS, networkingv1.IngressTLS{Hosts: []string{pick(r, "a.b", "c.d")}, SecretName: "s"})
			},
			func(r *rand.Rand, i *networkingv1.Ingress) {
				i.Spec.Rules = shuffle(r, i.Spec.Rules, networkingv1.IngressRule{Host: pick(r, "a.b", "c.d"), IngressRuleValue: networkingv1.IngressRuleValue{
					HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Path: "/x", PathType: &prefix, Backend: backend(r)}}},
				}})
			})
	})

	It("edits of unstructured objects", func(ctx SpecContext) {
		c := dynamicOracle{untypedClient.Resource(widgetResource).Namespace(space)}
		_, err := widgetClient().Create(ctx, fresh("u"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		set := func(u *unstructured.Unstructured, v any, path ...string) {
			Expect(unstructured.SetNestedField(u.Object, v, path...)).To(Succeed())
		}
		agree(ctx, c, "u", patch.Options{},
			func(r *rand.Rand, u *unstructured.Unstructured) { someMetadata(r, u) },
			func(r *rand.Rand, u *unstructured.Unstructured) {
				set(u, pick[any](r, "s", int64(1), 1.5, true, map[string]any{"x": "y"}, []any{"z", int64(2)}), "spec", pick(r, "a", "b", "c"))
			},
			func(r *rand.Rand, u *unstructured.Unstructured) {
				unstructured.RemoveNestedField(u.Object, "spec", pick(r, "a", "b", "c"))
			})
	})

	It("edits of a custom kind and its status", func(ctx SpecContext) {
		c := widgetClient()
		_, err := c.Create(ctx, fresh("w"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		agree(ctx, c, "w", patch.Options{},
			func(r *rand.Rand, w *widget) { someMetadata(r, w) },
			func(r *rand.Rand, w *widget) { w.Spec.Size, w.Spec.Color = r.Intn(3), pick(r, "", "red") },
			func(r *rand.Rand, w *widget) { w.Spec.Settings = words(r, w.Spec.Settings) },
			func(r *rand.Rand, w *widget) { w.Spec.Limit = pick(r, nil, new(int)) },
			func(r *rand.Rand, w *widget) {
				w.Spec.Parts = shuffle(r, w.Spec.Parts, part{Name: pick(r, "a", "b", "c")})
			})
		agree(ctx, c, "w", patch.Options{Subresource: "status"},
			func(r *rand.Rand, w *widget) { w.Status.Phase = pick(r, "", "a", "b", "c") },
			func(r *rand.Rand, w *widget) { w.Status.ObservedGeneration = r.Int63n(4) })
	})
})

// dynamicOracle is a dynamic client with the methods of a generated one.
type dynamicOracle struct{ dynamic.ResourceInterface }

func (d dynamicOracle) Get(ctx context.Context, name string, o metav1.GetOptions) (*unstructured.Unstructured, error) {
	return d.ResourceInterface.Get(ctx, name, o)
}

func (d dynamicOracle) Update(
	ctx context.Context, u *unstructured.Unstructured, o metav1.UpdateOptions,
) (*unstructured.Unstructured, error) {
	return d.ResourceInterface.Update(ctx, u, o)
}

func fresh(name string) *widget {
	w := &widget{Spec: widgetSpec{Bare: map[string]string{}}}
	w.APIVersion, w.Kind, w.Name = "example.com/v1", "Widget", name
	return w
}
