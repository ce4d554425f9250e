package cluster

import (
	"context"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// shortLife is the validity of the certificate that expires in the test: long enough for podconfigd to start.
const shortLife = 20 * time.Second

// The node's certificate is replaced, and the old one expires: podconfigd continues with the new one, without a
// restart.
func TestCertificateRotation(t *testing.T) {
	n := &node{name: "rotation", user: "system:node:rotation", group: "system:nodes"}
	n.launch(t, time.Now().Add(shortLife))
	s, objects := n.watch(t), n.watchObjects(t)
	s.ready(t)
	n.create(t, plane.client(t), "rotation-a")
	s.expect(t, "ADD rotation-a")
	old := rig.Get(os.ReadFile(n.credentials))(t)
	n.rotate(t, time.Now().Add(control.CertificateLife))
	check(t, "the server refuses the old certificate", func(t *testing.T) {
		config := plane.ClientConfig(plane.URL, old)
		httpClient := rig.Get(rest.HTTPClientFor(config))(t)
		defer utilnet.CloseIdleConnectionsFor(httpClient.Transport)
		client := rig.Get(kubernetes.NewForConfigAndClient(config, httpClient))(t)
		rig.Must(t, control.Until(t.Context(), nil, "the certificate has expired", func(ctx context.Context) error {
			_, err := client.CoreV1().Pods(namespace).Get(ctx, "rotation-a", metav1.GetOptions{})
			if apierrors.IsUnauthorized(err) {
				return nil
			}
			if err != nil {
				return err
			}
			return control.ErrNotYet
		}))
	})
	check(t, "a new pod is received", func(t *testing.T) {
		n.create(t, plane.client(t), "rotation-b", func(pod *corev1.Pod) { useConfigMap(pod, "rotation") })
		s.expect(t, "ADD rotation-b")
	})
	check(t, "a ConfigMap is received, which needs a new request", func(t *testing.T) {
		putConfigMap(t, plane.client(t), "rotation", "1")
		objects.await(t, configMap("rotation"), "1")
	})
	check(t, "changes after the server's next restart are received", func(t *testing.T) {
		plane.stop(t)
		plane.resume(t)
		n.create(t, plane.client(t), "rotation-c")
		s.expect(t, "ADD rotation-c")
	})
}
