package patch_test

import (
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/patch"
)

// Without a policy, the API server deletes a Job and lets its Pods run.
func TestTheDeletionOfAJobDeletesItsPods(t *testing.T) {
	for name, c := range map[string]struct {
		finalizers []string
		options    *patch.Options
		stays      bool // whether the Pod is left
	}{
		"by default":     {},
		"in foreground":  {finalizers: []string{metav1.FinalizerDeleteDependents}},
		"by a finalizer": {finalizers: []string{metav1.FinalizerOrphanDependents}, stays: true},
		"by the program": {options: &patch.Options{Propagation: metav1.DeletePropagationOrphan}, stays: true},
		"with both": {
			finalizers: []string{metav1.FinalizerOrphanDependents},
			options:    &patch.Options{Propagation: metav1.DeletePropagationBackground},
		},
		"with a lock": {options: &patch.Options{Lock: true}},
	} {
		t.Run(name, func(t *testing.T) {
			g, ctx := NewWithT(t), t.Context()
			sim, err := apisim.New(nil)
			g.Expect(err).NotTo(HaveOccurred())
			client := kubernetes.NewForConfigOrDie(sim.Config("controller"))
			job, err := client.BatchV1().Jobs("d").Create(ctx, &batchv1.Job{
				ObjectMeta: metav1.ObjectMeta{Name: "migration", Finalizers: c.finalizers},
				Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}},
				}}},
			}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			_, err = client.CoreV1().Pods("d").Create(ctx, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "running", OwnerReferences: []metav1.OwnerReference{
					*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job")),
				}},
				Spec: job.Spec.Template.Spec,
			}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())

			g.Expect(patch.Delete(ctx, client.BatchV1().Jobs, job, c.options)).To(Succeed())
			sim.Collector().Run()
			pods, err := client.CoreV1().Pods("d").List(ctx, metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			var left []string
			for _, pod := range pods.Items {
				if pod.DeletionTimestamp == nil {
					left = append(left, pod.Name)
				}
			}
			if c.stays {
				g.Expect(left).To(Equal([]string{"running"}))
			} else {
				g.Expect(left).To(BeEmpty())
			}
		})
	}
}
