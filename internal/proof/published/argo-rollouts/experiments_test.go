package argorollouts_test

import (
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// Both versions end an Experiment for good, with the phase Error, when one of
// their writes fails. And see TestExperimentThatIsCreatedAgain.
var failing = append([]string{"comes back with objects of the same names"}, writes...)

var writes = []string{
	"the reply is lost of", "500 instead of", "409 instead of", "429 instead of", "timeout, and later the commit, of",
	"the network does not reach", "caches that begin",
}

// experiment runs one Pod.
func experiment(analyses ...v1alpha1.ExperimentAnalysisTemplateRef) *v1alpha1.Experiment {
	labels := map[string]string{"app": "web"}
	pod := corev1.PodTemplate{Template: corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}}
	defaults.SetObjectDefaults_PodTemplate(&pod) // the simulated server sets none
	return &v1alpha1.Experiment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "argoproj.io/v1alpha1", Kind: "Experiment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "web"},
		Spec: v1alpha1.ExperimentSpec{
			Analyses: analyses,
			Templates: []v1alpha1.TemplateSpec{{
				Name: "canary", Replicas: ptr.To[int32](1), Template: pod.Template,
				Selector: &metav1.LabelSelector{MatchLabels: labels},
			}},
		},
	}
}

// argoproj/argo-rollouts#4842, mended by #4855 in v1.10.0.
func TestReplicaSetThatTheCacheDoesNotHave(t *testing.T) {
	judged(t, explored(t, &reconciletest.Case{Objects: []runtime.Object{experiment()}}, failing...),
		`replicaset.apps "web-canary" not found`)
}

// argoproj/argo-rollouts#4804, mended by #4805 in v1.10.0.
func TestAnalysisRunThatTheCacheDoesNotHave(t *testing.T) {
	judged(t, explored(t, &reconciletest.Case{
		Objects: []runtime.Object{
			experiment(v1alpha1.ExperimentAnalysisTemplateRef{Name: "smoke", TemplateName: "smoke"}),
			&v1alpha1.AnalysisTemplate{
				TypeMeta:   metav1.TypeMeta{APIVersion: "argoproj.io/v1alpha1", Kind: "AnalysisTemplate"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "smoke"},
				Spec: v1alpha1.AnalysisTemplateSpec{Metrics: []v1alpha1.Metric{{
					Name: "up", Provider: v1alpha1.MetricProvider{Web: &v1alpha1.WebMetric{URL: "http://web"}},
				}}},
			},
		},
	}, append(failing, "Failed to create ReplicaSet")...),
		`analysisruns.argoproj.io "web-smoke" not found`)
}

// judged wants the bug in the version that has it, and nothing in the other.
func judged(t *testing.T, r *reconciletest.Report, bug string) {
	t.Helper()
	g := gomega.NewWithT(t)
	if fixed {
		g.Expect(r.Failure).To(gomega.BeEmpty())
		g.Expect(r.Covered()).To(gomega.BeTrue())
		return
	}
	g.Expect(r.Failure).To(gomega.And(gomega.HavePrefix("watch held back from delivery"), gomega.ContainSubstring(bug)))
}
