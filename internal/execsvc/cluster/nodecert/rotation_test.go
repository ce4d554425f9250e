package nodecert

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// Requests always succeed while the certificate is renewed many times, and connections with an old certificate
// are closed.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		n.bootstrapTo(a)
		registry := prometheus.NewRegistry()
		c := n.start(a, func(cfg *ClientConfig) { cfg.Metrics = registry })
		good := isMe(t, c)
		await(t, "requests get through", good)
		first := a.serial
		watch, err := clientset(t, c).CertificatesV1().CertificateSigningRequests().Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=none"})
		if err != nil {
			t.Fatal(err)
		}
		always(t, "requests get through", 5*time.Hour, good)
		await(t, "a watch by the first certificate ends", func() bool {
			select {
			case _, more := <-watch.ResultChan():
				return !more
			default:
				return false
			}
		})
		if a.serial.Cmp(first) == 0 || a.created < 5 || a.created > 8 {
			t.Errorf("in five hours %d certificates of one hour were asked for; want one each 42 to 54 minutes", a.created)
		}
		if left := metric(t, registry, "kubelet_certificate_manager_client_ttl_seconds"); left <= 0 || left > 3600 {
			t.Errorf("the certificate is good for %v seconds; it is one of an hour", left)
		}
		if n := n.log.Count("level=WARN"); n != 0 {
			t.Errorf("%d warnings", n)
		}
	})
}

// A kubeconfig that contains a certificate, as an installer writes it, is changed to name the renewed one,
// because podconfigd uses it too.
func TestRotationOfWhatTheKubeconfigHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		n.install(a, "n1")
		c := n.start(a, func(cfg *ClientConfig) { cfg.BootstrapKubeconfig = "" })
		good := isMe(t, c)
		always(t, "requests get through", 2*time.Hour, good)
		raw, err := clientcmd.LoadFromFile(n.kubeconfig())
		if err != nil {
			t.Fatal(err)
		}
		if u := raw.AuthInfos["u"]; u.ClientCertificate != n.pem() || u.ClientKey != n.pem() || len(u.ClientCertificateData)+len(u.ClientKeyData) > 0 {
			t.Errorf("the kubeconfig's user is %v; want the file of the renewed certificate", u)
		}
		if raw.AuthInfos["other"].Token != "another" {
			t.Error("the kubeconfig's other user has changed")
		}
	})
}

// A certificate with more rights than a node's, as an installer may leave it, is replaced at once.
func TestRotationOfAnotherName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		n.install(a, "admin")
		c := n.start(a)
		awaitMe(t, c)
		a.wantRequests(1)
	})
}

// A certificate that expired while the node was off can't renew itself: the node bootstraps like a new one.
func TestExpiredWhileOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		n.bootstrapTo(a)
		c := n.client(a)
		end := run(t, c.Run)
		awaitMe(t, c)
		end()
		time.Sleep(2 * time.Hour)

		alone := n.client(a, func(cfg *ClientConfig) { cfg.BootstrapKubeconfig = "" })
		end = run(t, alone.Run)
		time.Sleep(time.Hour)
		if _, err := whoAmI(clientset(t, alone)); !apierrors.IsUnauthorized(err) {
			t.Errorf("a request with an expired certificate: %v; want that it is unauthorized", err)
		}
		if n.log.Count("no bootstrap kubeconfig") != 1 {
			t.Errorf("the expired certificate isn't logged once")
		}
		end()

		c = n.start(a)
		awaitMe(t, c)
	})
}

// The renewed certificate is damaged, and the one in the kubeconfig is still valid.
func TestRenewedOneDamaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		n.install(a, "n1")
		n.write(n.pem(), []byte("-----BEGIN CERTIFICATE-----\nMIIB"))
		c := n.start(a)
		awaitMe(t, c)
		if n.log.Count("can't be read") == 0 {
			t.Error("the damaged certificate isn't logged")
		}
	})
}

// The newer one of the kubeconfig's certificate and the renewed one is used, and unchanged files aren't read
// again.
func TestTheYoungerIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		n.install(a, "n1")
		c := n.client(a)
		older := c.route
		if c.look(0) != older {
			t.Error("an unchanged file was read again")
		}
		time.Sleep(time.Minute)
		renewed, err := c.issuer.save(a.ca.PairPEM(forNode("n1", time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.look(0); !got.cert.Leaf.Equal(renewed.Leaf) {
			t.Error("the renewed certificate isn't taken")
		}
		time.Sleep(time.Minute)
		n.install(a, "n1")
		if got := c.look(0); got.cert.Leaf.Equal(renewed.Leaf) || got.cert.Leaf.Equal(older.cert.Leaf) {
			t.Error("the kubeconfig's new certificate isn't taken")
		}
	})
}

// Renewals are due by the wall clock, also if it jumps.
func TestClockJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		n.install(a, "n1")
		c := n.client(a)
		start := time.Now()
		for _, tc := range []struct {
			after time.Duration
			due   bool
		}{{0, false}, {-24 * time.Hour, false}, {41 * time.Minute, false}, {55 * time.Minute, true}, {2 * time.Hour, true}, {time.Minute, false}} {
			if got := c.due(start.Add(tc.after)) != nil; got != tc.due {
				t.Errorf("%v after it was made, that something is due is %v", tc.after, got)
			}
		}
	})
}

func TestDropsUsedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		key := n.install(a, "n1")
		n.write(n.path("pki/kubelet-client.key.tmp"), key)
		n.start(a)
		await(t, "it is renewed", func() bool { return exists(n.pem()) })
		if bytes.Contains(n.read(n.pem()), key) {
			t.Error("the renewed certificate has the key of the one before")
		}
	})
}
