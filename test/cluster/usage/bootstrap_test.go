package usage

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/podstream/podstream/test/rig"
)

// A machine joins with only a bootstrap token: the controller manager signs its client certificate, an
// administrator approves its serving certificate, and it becomes a ready node. With its credentials it starts
// again without the token.
func TestBootstrap(t *testing.T) {
	const id, secret = "abcdef", "0123456789abcdef"
	tokens := here.Client.CoreV1().Secrets(metav1.NamespaceSystem)
	rig.Get(tokens.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true"},
	}, metav1.CreateOptions{}))(t)
	n := newNode(t, "joins", func(n *node) {
		n.Joins, n.Config = true, "rotateCertificates: true\nserverTLSBootstrap: true\n"
		rig.Must(t, os.MkdirAll(n.Path(), 0o755))
		config := here.Plane.Authority.Kubeconfig(here.Plane.URL, clientcmdapi.AuthInfo{Token: id + "." + secret})
		rig.Must(t, clientcmd.WriteToFile(*config, n.Path("bootstrap-kubeconfig")))
		n.PodexecdFlags = []string{"--bootstrap-kubeconfig", n.Path("bootstrap-kubeconfig")}
	})
	if info := rig.Get(os.Stat(n.Kubeconfig()))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig that was written has the mode %v", info.Mode())
	}

	requests := rig.Get(await(t.Context(), here.requests(), "the node asks for a serving certificate", func(requests map[string]*certificatesv1.CertificateSigningRequest) error {
		return when(servingRequest(requests, n) != nil)
	}))(t)
	serving := servingRequest(requests, n)
	address := net.JoinHostPort(here.IP, strconv.Itoa(n.Port))
	if err := dialNode(address); err == nil {
		t.Error("the node's API has a certificate of the authority before one was approved")
	}
	here.kubectl(t, "certificate", "approve", serving.Name)
	s := newSpace(t, n)
	s.applyPod(t, "box", sampleImage, sample("print", "hello"), "terminationGracePeriodSeconds: 1")
	pod := s.awaitReady(t, "box")
	rig.Must(t, untilServing(t, address))
	if got := s.kubectl(t, "logs", "box"); got != "hello\n" {
		t.Errorf("its log is %q", got)
	}

	rig.Must(t, tokens.Delete(t.Context(), "bootstrap-token-"+id, metav1.DeleteOptions{}))
	restart(t, n.Podconfigd)
	restart(t, n.Podexecd)
	rig.Must(t, untilServing(t, address))
	s.applyPod(t, "second", sampleImage, idle, "terminationGracePeriodSeconds: 1")
	s.awaitReady(t, "second")
	if again := s.awaitReady(t, "box"); again.Status.ContainerStatuses[0].ContainerID != pod.Status.ContainerStatuses[0].ContainerID {
		t.Error("a restart of the daemons replaced the container")
	}
}

// servingRequest returns the node's request for a serving certificate that is neither approved nor denied, or
// nil.
func servingRequest(requests map[string]*certificatesv1.CertificateSigningRequest, n *node) *certificatesv1.CertificateSigningRequest {
	for _, r := range requests {
		if r.Spec.SignerName == certificatesv1.KubeletServingSignerName && r.Spec.Username == "system:node:"+n.Name && len(r.Status.Conditions) == 0 {
			return r
		}
	}
	return nil
}

// dialNode does a TLS handshake with a node's API and checks its certificate.
func dialNode(address string) error {
	authority, err := os.ReadFile(here.Plane.Authority.File)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return fmt.Errorf("%s has no certificate", here.Plane.Authority.File)
	}
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pool})
	if err != nil {
		return err
	}
	defer conn.Close()
	if cn := conn.ConnectionState().PeerCertificates[0].Subject.CommonName; !strings.HasPrefix(cn, "system:node:") {
		return fmt.Errorf("the certificate's common name is %s", cn)
	}
	return nil
}

func untilServing(t *testing.T, address string) error {
	t.Helper()
	return untilNil(t, "the node's API has a certificate of the authority", func() error { return dialNode(address) })
}
