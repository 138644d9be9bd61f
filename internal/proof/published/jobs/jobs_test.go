package jobs_test

import (
	"context"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controller/cronjob"
	"k8s.io/kubernetes/pkg/controller/job"

	"github.com/homeostat/homeostat/internal/proof/published"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// fixed is the first version with both fixes that is available.
const fixed = "v1.37.2"

func jobs(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) ([]published.Loop, error) {
	j, err := job.NewController(ctx, c, f.Core().V1().Pods(), f.Batch().V1().Jobs(), nil, nil)
	return []published.Loop{func(ctx context.Context) { j.Run(ctx, 2) }}, err
}

func cronJobs(
	ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory,
) ([]published.Loop, error) {
	j, err := cronjob.NewControllerV2(ctx, f.Batch().V1().Jobs(), f.Batch().V1().CronJobs(), c)
	return []published.Loop{func(ctx context.Context) { j.Run(ctx, 2) }}, err
}

// kubernetes/kubernetes#141346, fixed by #141329: when a Job is deleted, an
// attempt to remove the finalizer from its Pod fails, and is not repeated. That
// Pod is being deleted already, so that no event about it follows. By its
// policy the Job waits until the Pod has ended, which it does not, without a
// kubelet.
func TestFinalizerOfAPodWithoutItsJob(t *testing.T) {
	waiting := published.Job(1, 1)
	waiting.Spec.PodReplacementPolicy = new(batchv1.Failed)
	(&published.Bug{
		Controller: job.NewController, Fixed: fixed,
		// Also known: what restarts with stale caches do, in both versions.
		Options: reconciletest.Options{KnownFindings: []string{"caches that begin"}, SkipDrift: true},
		Case: &reconciletest.Case{
			Run: published.Wire(jobs).Program, Objects: []runtime.Object{waiting},
			Workload: []reconciletest.Step{
				{Name: "delete the Pods of d/web", Do: func(ctx context.Context, w *reconciletest.World) error {
					return w.Client().CoreV1().Pods("d").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
				}},
				{Name: "delete the Job d/web", Do: func(ctx context.Context, w *reconciletest.World) error {
					return w.Client().BatchV1().Jobs("d").Delete(ctx, "web",
						metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
				}},
			},
			Ignore: []string{"pods metadata.name"},
		},
		Oracle: "state", Says: `\+ pods d/web-\*`,
	}).Told(t)
}

// kubernetes/kubernetes#136918, fixed by #136920: the CronJob looks for the Job
// that it has already created in no namespace, and never adds it to its status.
func TestJobThatIsThereAlready(t *testing.T) {
	// Runs begin in the night of January 1st, 2000, a minute before the next
	// Job or hours after it. The one after that is a day later.
	yesterday := metav1.NewTime(time.Date(1999, time.December, 31, 0, 1, 0, 0, time.UTC))
	template := published.Job(1, 1).Spec
	template.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	(&published.Bug{
		Controller: cronjob.NewControllerV2, Fixed: fixed,
		Options: reconciletest.Options{SkipDrift: true},
		Case: &reconciletest.Case{
			Run: published.Wire(cronJobs).Program,
			Objects: []runtime.Object{&batchv1.CronJob{
				ObjectMeta: published.Meta(),
				Spec: batchv1.CronJobSpec{
					Schedule: "1 0 * * *", ConcurrencyPolicy: batchv1.AllowConcurrent,
					JobTemplate: batchv1.JobTemplateSpec{Spec: template},
				},
				Status: batchv1.CronJobStatus{LastScheduleTime: &yesterday},
			}},
			Ignore: []string{"jobs.batch metadata.name"},
		},
		Oracle: "state", Says: `cronjobs.batch`,
	}).Told(t)
}
