package differential
import (
 "testing"
 "k8s.io/kubernetes/pkg/kubelet/config"
 "k8s.io/client-go/tools/record"
)
func TestProbe(t *testing.T) { _ = config.NewPodConfig(config.PodConfigNotificationIncremental, record.NewFakeRecorder(1), nil) }
