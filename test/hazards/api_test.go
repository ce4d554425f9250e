package hazards

import (
	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// api starts or stops the API server.
func api(s *scenario, d *datadriven.TestData) string {
	switch s.arg(d, 0) {
	case "up":
		s.api.Start()
	case "down":
		s.api.Stop()
	default:
		d.Fatalf(s.t, "the API server can be up or down")
	}
	return ""
}

func putAPIPod(s *scenario, d *datadriven.TestData) string {
	pod := apiPod(s.arg(d, 0))
	pod.Spec = v1.PodSpec{
		NodeName: nodeName, RestartPolicy: v1.RestartPolicyAlways, DNSPolicy: v1.DNSDefault, TerminationGracePeriodSeconds: ptr.To[int64](1),
		Containers: []v1.Container{{
			Name: "main", Image: "localhost/sample:" + s.arg(d, 1), ImagePullPolicy: v1.PullIfNotPresent, Args: []string{"sleep"},
			TerminationMessagePath: v1.TerminationMessagePathDefault, TerminationMessagePolicy: v1.TerminationMessageReadFile,
		}},
	}
	s.api.Put(pod)
	return ""
}

func deleteAPIPod(s *scenario, d *datadriven.TestData) string {
	s.api.Delete(apiPod(s.arg(d, 0)))
	return ""
}

func apiPod(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault}}
}
