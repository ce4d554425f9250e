package apiserver

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

// TestPodsAreNotJudged: a value that this version doesn't support doesn't make a pod held. The API server has
// validated the pod, and it may already run here. The kubelet validates only static pods.
func TestPodsAreNotJudged(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Put(newPod("web"))
	r := read(t, server)
	_, at := r.awaitPods(0, "ns/web")

	changed := newPod("web")
	spec := &changed.Spec
	spec.RestartPolicy, spec.DNSPolicy, spec.SchedulerName = "Sometimes", "Elsewhere", "-"
	spec.OS = &v1.PodOS{Name: "plan9"}
	spec.TerminationGracePeriodSeconds = ptr.To(int64(-1))
	spec.SecurityContext = &v1.PodSecurityContext{SELinuxChangePolicy: ptr.To(v1.PodSELinuxChangePolicy("Later"))}
	spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{WhenUnsatisfiable: "Wait"}}
	spec.Containers[0].ImagePullPolicy = "OnFullMoon"
	spec.Containers[0].Lifecycle = &v1.Lifecycle{StopSignal: ptr.To(v1.Signal("SIGNEW"))}
	spec.Containers[0].SecurityContext = &v1.SecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: "Later"}}
	changed.Annotations = map[string]string{v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + "none": "bogus"}
	server.Put(changed)
	set, _ := r.await("the pod with unknown values", at, func(s manifest.Set) bool {
		return podOf(t, s, "ns/web").Spec.RestartPolicy == "Sometimes"
	})
	if o := set.Origins[0]; o.Held || len(o.Findings) > 0 {
		t.Errorf("held %v with findings %v", o.Held, o.Findings)
	}
	if got := podOf(t, set, "ns/web").Spec; got.Containers[0].ImagePullPolicy != "OnFullMoon" || *got.TerminationGracePeriodSeconds != -1 {
		t.Errorf("the pod was changed: pull policy %q, grace period %d", got.Containers[0].ImagePullPolicy, *got.TerminationGracePeriodSeconds)
	}
}
