package cridiff

import (
	_ "embed"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

//go:embed inside.yaml
var insidePods string

// InsidePods returns pods for real containers. The image is that of test/sample. Main containers and sidecars without
// arguments report what they find.
func InsidePods(image string) ([]*v1.Pod, error) {
	var pods []*v1.Pod
	for text := range strings.SplitSeq(insidePods, "\n---\n") {
		pod := &v1.Pod{}
		if err := yaml.UnmarshalStrict([]byte(text), pod); err != nil {
			return nil, fmt.Errorf("%w: %s", err, text)
		}
		pod.APIVersion, pod.Kind, pod.Namespace, pod.UID = "v1", "Pod", pod.Name, types.UID("inside-"+pod.Name)
		for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				list[i].Image, list[i].ImagePullPolicy = image, v1.PullNever
				if list[i].Args == nil {
					list[i].Args = []string{"inspect", "/etc/hosts", "/etc/resolv.conf", "/etc/hostname", "/proc/self/limits", "/dev/termination-log", "/vol"}
				}
			}
		}
		pods = append(pods, pod)
	}
	return pods, nil
}
