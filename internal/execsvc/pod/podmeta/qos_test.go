package podmeta

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstream/podstream/internal/execsvc/pod/podtest"
)

func TestQOSClass(t *testing.T) {
	full := podtest.Sized(podtest.Amounts("1", "1Gi"), podtest.Amounts("1", "1Gi"))
	for name, c := range map[string]struct {
		pod  *v1.Pod
		want v1.PodQOSClass
	}{
		"nothing said":             {podtest.Of(v1.Container{}), v1.PodQOSBestEffort},
		"zeros only":               {podtest.Of(podtest.Sized(podtest.Amounts("0", "0"), nil)), v1.PodQOSBestEffort},
		"other resources only":     {podtest.Of(podtest.Sized(v1.ResourceList{"ephemeral-storage": resource.MustParse("1Gi")}, nil)), v1.PodQOSBestEffort},
		"requests equal limits":    {podtest.Of(full), v1.PodQOSGuaranteed},
		"the same otherwise put":   {podtest.Of(podtest.Sized(podtest.Amounts("1000m", "1024Mi"), podtest.Amounts("1", "1Gi"))), v1.PodQOSGuaranteed},
		"limits only":              {podtest.Of(podtest.Sized(nil, podtest.Amounts("1", "1Gi"))), v1.PodQOSGuaranteed},
		"request of zero":          {podtest.Of(podtest.Sized(podtest.Amounts("0", "1Gi"), podtest.Amounts("1", "1Gi"))), v1.PodQOSBurstable},
		"requests below limits":    {podtest.Of(podtest.Sized(podtest.Amounts("500m", "1Gi"), podtest.Amounts("1", "1Gi"))), v1.PodQOSBurstable},
		"memory without cpu":       {podtest.Of(podtest.Sized(podtest.Amounts("", "1Gi"), podtest.Amounts("", "1Gi"))), v1.PodQOSBurstable},
		"one container of two":     {podtest.Of(full, v1.Container{}), v1.PodQOSBurstable},
		"init container without":   {&v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{{}}, Containers: []v1.Container{full}}}, v1.PodQOSBurstable},
		"the API server's is kept": {&v1.Pod{Status: v1.PodStatus{QOSClass: v1.PodQOSBurstable}}, v1.PodQOSBurstable},
	} {
		if got := QOSClass(c.pod); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
