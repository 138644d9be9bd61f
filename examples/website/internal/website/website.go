// Package website creates and updates the children of each Website, a
// Deployment and a Service, and the Website's entry in a CDN outside the
// cluster.
package website

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/renameio/v2/maybe"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/cluster"
	v1 "github.com/homeostat/homeostat/examples/website/api/v1"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/patch/children"
	"github.com/homeostat/homeostat/reconcile"
)

// Name is the name of the operator's field manager, and the value of the label
// that marks its objects. siteLabel is the label of a Website's Pods; its value
// is the name of the Website.
const Name, siteLabel = "website", "web.homeostat.dev/website"

// Client reads and writes the Websites of one namespace, or of all namespaces.
type Client interface {
	informer.Client[*v1.Website, *v1.WebsiteList]
	patch.Client[*v1.Website]
}

// Setup returns the controller for [operator.Program].
func Setup(env operator.Env, cdn CDN) ([]*reconcile.Controller, error) {
	resource := v1.GroupVersion.WithResource("websites")
	websites, err := cluster.NewKind[*v1.Website, *v1.WebsiteList](env.Cluster, resource, v1.AddToScheme)
	check := reconcile.Key{Name: "check"} // not the key of a Website: it only tests that the directory is writable
	if err = errors.Join(err, cdn.Publish(check, ""), cdn.Remove(check)); err != nil {
		return nil, err
	}
	c, err := New(env.Cluster.Client(), func(ns string) Client { return websites.In(ns) }, cdn, env.Options())
	return []*reconcile.Controller{c}, err
}

// reconciler reconciles Websites. Calls for different Websites may overlap.
type reconciler struct {
	websites    func(namespace string) Client
	secrets     *informer.References[*corev1.Secret]
	deployments *children.Set[*appsv1.Deployment]
	services    *children.Set[*corev1.Service]
	cdn         CDN
	options     *reconcile.Options
}

// New returns the controller. The caller must run it.
func New(
	client kubernetes.Interface, websites func(namespace string) Client, cdn CDN, o *reconcile.Options,
) (*reconcile.Controller, error) {
	sites := informer.ForNamespaces(websites, nil)
	deployments := informer.For(client.AppsV1().Deployments(""), nil)
	services := informer.For(client.CoreV1().Services(""), nil)
	secrets := informer.Referenced(client.CoreV1().Secrets, nil)
	o.Triggers = []reconcile.Trigger{
		reconcile.Owned(deployments), reconcile.Owned(services),
		reconcile.References(secrets, func(w *v1.Website) []reconcile.Key { return []reconcile.Key{secretOf(w)} }),
		reconcile.External("cdn", func(ctx context.Context, enqueue func(reconcile.Key) error) error {
			return wait.PollUntilContextCancel(ctx, time.Minute, false, func(context.Context) (bool, error) {
				for site := range sites.Snapshot().All() {
					if entry, _ := cdn.Entry(keyOf(site)); string(entry) != entryOf(site) {
						_ = enqueue(keyOf(site)) // enqueue fails only after ctx has ended
					}
				}
				return false, nil
			})
		}),
	}
	kind := v1.GroupVersion.WithKind("Website")
	marked := &children.Options{Mark: map[string]string{"app.kubernetes.io/managed-by": Name}}
	return reconcile.New(Name, sites, &reconciler{
		websites: websites, secrets: secrets, cdn: cdn, options: o,
		deployments: children.New(kind, websites, deployments, client.AppsV1().Deployments, marked),
		services:    children.New(kind, websites, services, client.CoreV1().Services, marked),
	}, o)
}

// Reconcile brings a Website to its desired state, and reports the result in
// its status.
func (r *reconciler) Reconcile(ctx context.Context, q reconcile.Request[*v1.Website]) (reconcile.Result, error) {
	site, ok := q.Object()
	if !ok {
		return reconcile.Result{}, nil // its entry has been removed, and the server deletes its children
	}
	finalizer := patch.Finalizer[*v1.Website, Client]{Name: "web.homeostat.dev/cdn", Client: r.websites, Clean: r.clean}
	live, site, err := finalizer.Guard(ctx, site)
	if err != nil || !live {
		return reconcile.Result{}, err
	}
	missing, err := r.keep(ctx, site)
	if !patch.IsStale(err) { // the next reconcile sees newer objects, and has something to report
		err = errors.Join(err, r.report(ctx, site, missing))
	}
	return reconcile.Result{}, err
}

// clean removes the Website's entry from the CDN. The server cannot do that: it
// deletes only objects in the cluster.
func (r *reconciler) clean(_ context.Context, w *v1.Website) error { return r.cdn.Remove(keyOf(w)) }

// keep creates or updates the children and the CDN's entry of a Website. It
// does nothing while the Secret of the Website does not exist. It returns the
// reason why visitors cannot see this generation of the Website yet, or the
// empty string.
func (r *reconciler) keep(ctx context.Context, site *v1.Website) (missing string, err error) {
	secret, ok := r.secrets.Get(secretOf(site))
	if !ok {
		return fmt.Sprintf("Secret %q does not exist", site.Spec.SecretName), nil
	}
	deployed, err := r.deployments.Ensure(ctx, site, deploymentOf(site, secret))
	_, err2 := r.services.Ensure(ctx, site, serviceOf(site))
	if err := errors.Join(err, err2, r.publish(ctx, site)); err != nil {
		return err.Error(), err
	}
	if n, want := running(deployed[0]), site.Spec.Replicas; n < want {
		return fmt.Sprintf("%d of %d replicas are up to date and available", n, want), nil
	}
	return "", nil
}

// running returns how many Pods of the newest template are available, at least.
// AvailableReplicas also counts Pods of older templates, which stay while the
// new ones cannot start, for example because their image does not exist.
func running(d *appsv1.Deployment) int32 {
	if d.Status.ObservedGeneration < d.Generation {
		return 0 // the status is about an older template
	}
	old := d.Status.Replicas - d.Status.UpdatedReplicas
	return max(d.Status.AvailableReplicas-old, 0)
}

// publish sets the Website's entry in the CDN, if it differs. Before that, it
// asks the server whether the Website still exists, because the CDN checks no
// preconditions, and the cache may be late, even by minutes after a restart.
// While the Website exists, its finalizer ensures that the entry will be
// removed.
func (r *reconciler) publish(ctx context.Context, site *v1.Website) error {
	if entry, _ := r.cdn.Entry(keyOf(site)); string(entry) == entryOf(site) {
		return nil
	}
	live, ok, err := names.Live(ctx, r.websites(site.Namespace), site.Name)
	if err != nil || !ok || live.UID != site.UID {
		return err
	}
	return r.cdn.Publish(keyOf(site), entryOf(site))
}

// report writes the condition Ready to the status if it has changed. When its
// status becomes True or False, report also records an Event. missing is the
// reason why visitors cannot see the Website, or the empty string.
func (r *reconciler) report(ctx context.Context, site *v1.Website, missing string) error {
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Complete"}
	if missing != "" {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "Incomplete", missing
	}
	_, err := patch.Status(ctx, r.websites, site, nil, func(edit *v1.Website) {
		meta.SetStatusCondition(&edit.Status.Conditions, ready)
	})
	if err == nil && !meta.IsStatusConditionPresentAndEqual(site.Status.Conditions, ready.Type, ready.Status) {
		r.options.Events.Eventf(site, nil, corev1.EventTypeNormal, ready.Reason, "Reconcile", "%s", ready.Message)
	}
	return err
}

// deploymentOf returns the Deployment of a Website's web server. It sets only
// the fields that it needs. The API server's defaults and the fields that other
// clients have set stay.
func deploymentOf(site *v1.Website, secret *corev1.Secret) children.Child[*appsv1.Deployment] {
	return children.Child[*appsv1.Deployment]{Name: site.Name, Edit: func(d *appsv1.Deployment) {
		d.Spec.Replicas = new(site.Spec.Replicas)
		d.Spec.Selector = metav1.SetAsLabelSelector(map[string]string{siteLabel: site.Name})
		metav1.SetMetaDataLabel(&d.Spec.Template.ObjectMeta, siteLabel, site.Name)
		// A changed annotation restarts the Pods. Append sorts the keys of the
		// map.
		sum := fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, secret.Data)))
		metav1.SetMetaDataAnnotation(&d.Spec.Template.ObjectMeta, "web.homeostat.dev/secret", sum)
		// This is the only container, and keeps the defaults that the server
		// has set.
		d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{})[:1]
		web := &d.Spec.Template.Spec.Containers[0]
		web.Name, web.Image = "web", site.Spec.Image
		web.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{}}}
		web.EnvFrom[0].SecretRef.Name = secret.Name
	}}
}

// serviceOf returns the Service through which the CDN reaches the web server.
func serviceOf(site *v1.Website) children.Child[*corev1.Service] {
	return children.Child[*corev1.Service]{Name: site.Name, Edit: func(s *corev1.Service) {
		s.Spec.Type, s.Spec.Selector = corev1.ServiceTypeClusterIP, map[string]string{siteLabel: site.Name}
		s.Spec.Ports = []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP}}
	}}
}

func entryOf(site *v1.Website) string {
	return fmt.Sprintf("%s http://%s.%s.svc\n", site.Spec.Host, site.Name, site.Namespace)
}

func secretOf(site *v1.Website) reconcile.Key {
	return reconcile.Key{Namespace: site.Namespace, Name: site.Spec.SecretName}
}

func keyOf(o metav1.Object) reconcile.Key {
	return reconcile.Key{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// CDN is a directory from which a content delivery network reads the addresses
// of websites. The directory contains one file for each website. It is an
// example of state outside the cluster, such as DNS records or a load balancer.
type CDN string

// Entry returns the entry of a website.
func (c CDN) Entry(site reconcile.Key) ([]byte, error) { return os.ReadFile(c.file(site)) }

// Publish sets the entry of a website. If it fails, for example because the
// disk is full, the CDN still reads the previous entry, except on Windows.
func (c CDN) Publish(site reconcile.Key, entry string) error {
	return maybe.WriteFile(c.file(site), []byte(entry), 0o644)
}

// Remove removes the entry of a website. A missing entry is not an error.
func (c CDN) Remove(site reconcile.Key) error { return os.RemoveAll(c.file(site)) }

func (c CDN) file(s reconcile.Key) string { return string(c) + "/" + s.Namespace + "." + s.Name }
