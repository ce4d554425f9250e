package differential
import (
 "testing"
 "k8s.io/kubernetes/pkg/kubelet/config"
 "k8s.io/client-go/tools/record"
 podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
 "github.com/podstream/podstream/test/injectd/inject"
 "google.golang.org/grpc"
 "google.golang.org/grpc/credentials/insecure"
 "go.uber.org/goleak"
 "pgregory.net/rapid"
 "github.com/google/go-cmp/cmp"
 v1 "k8s.io/api/core/v1"
 metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)
var _ = metav1.Now
var _ v1.Pod
var _ = cmp.Diff
var _ = goleak.VerifyTestMain
var _ = rapid.Check
var _ = grpc.NewClient
var _ = insecure.NewCredentials
var _ podconfigv1.Pod
var _ = inject.Dial
func TestProbe(t *testing.T) { _ = config.NewPodConfig(config.PodConfigNotificationIncremental, record.NewFakeRecorder(1), nil) }
