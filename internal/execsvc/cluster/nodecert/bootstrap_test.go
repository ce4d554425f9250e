package nodecert

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/podstream/podstream/internal/execsvc/cluster/apiclient"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestBootstrap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		a.decision = leave
		n.bootstrapTo(a)
		c := n.client(a)
		client := clientset(t, c)
		if _, err := whoAmI(client); !errors.Is(err, ErrNoServer) {
			t.Errorf("a request before there is a kubeconfig: %v; want ErrNoServer", err)
		}
		run(t, c.Run)
		a.awaitRequests(1)
		synctest.Wait()
		if exists(n.kubeconfig()) {
			t.Error("the kubeconfig was written before the certificate")
		}
		a.decideAll(approve)
		await(t, "requests of the existing client succeed", asks(client, me))

		info, err := os.Stat(n.kubeconfig())
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the kubeconfig: %v, %v; want 0600", info.Mode(), err)
		}
		if bytes.Contains(n.read(n.kubeconfig()), []byte(token)) {
			t.Error("the kubeconfig has the bootstrap token")
		}
		// podconfigd reads it in the same way.
		said, _, err := readKubeconfig(n.kubeconfig())
		if err != nil || said.cert == nil || said.cert.Leaf.Subject.CommonName != me || said.config.Host != "https://"+apiHost+":6443" {
			t.Errorf("the kubeconfig has %+v, %v", said, err)
		}
		a.wantRequests(1)
		if exists(n.path("pki/kubelet-client.key.tmp")) {
			t.Error("the request's key is left beside the certificate")
		}
	})
}

// A podexecd that is killed while a request waits continues with it: it creates neither a second request nor a
// second key.
func TestKilledBeforeTheCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		a.decision = leave
		n.bootstrapTo(a)
		for range 3 {
			end := run(t, n.client(a).Run)
			a.awaitRequests(1)
			synctest.Wait()
			end()
		}
		a.decideAll(approve)
		c := n.start(a)
		awaitMe(t, c)
		a.wantRequests(1)
	})
}

// A podexecd that is killed after it received the certificate, and before it wrote the kubeconfig, writes it at
// the next start.
func TestKilledBeforeTheKubeconfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		n.bootstrapTo(a)
		c := n.client(a)
		way, err := newRoute(mustRead(t, n.path("bootstrap")).config, nil, a.dial)
		if err != nil {
			t.Fatal(err)
		}
		defer way.retire()
		client, err := apiclient.New(&rest.Config{Host: placeholder, Transport: way})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.issuer.issue(t.Context(), client, c.request()); err != nil {
			t.Fatal(err)
		}
		c = n.start(a)
		awaitMe(t, c)
		a.wantRequests(1)
	})
}

func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		a.decision = deny
		n.bootstrapTo(a)
		c := n.start(a)
		time.Sleep(time.Hour)
		if made := a.requests(); made < 2 || made > 13 {
			t.Errorf("%d requests were made in an hour of refusals; want one each five minutes", made)
		}
		a.set(func() { a.decision = approve })
		if n.log.Count("msg=\"a certificate request was denied") != 1 || n.log.Count("not in here") != 1 {
			t.Errorf("the refusal isn't logged once, with its reason")
		}
		awaitMe(t, c)
	})
}

// No approval for an hour: one request, logged once.
func TestNotApproved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		a.decision = leave
		n.bootstrapTo(a)
		c := n.start(a)
		time.Sleep(time.Hour)
		a.wantRequests(1)
		if n.log.Count("msg=\"a certificate signing request waits for approval") != 1 {
			t.Error("the waiting request isn't logged once")
		}
		a.decideAll(approve)
		awaitMe(t, c)
	})
}

// The API server stops while a request waits, and comes back. The retries are not logged.
func TestServerGoesWhileARequestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		a.decision = leave
		n.bootstrapTo(a)
		c := n.start(a)
		a.awaitRequests(1)
		time.Sleep(time.Second)
		a.goAway(true)
		time.Sleep(time.Hour)
		if logged := n.log.Count("level=WARN") + n.log.Count("level=ERROR"); logged > 2 {
			t.Errorf("%d warnings; want one each of the request and the server", logged)
		}
		a.goAway(false)
		a.decideAll(approve)
		awaitMe(t, c)
	})
}

// The API server may be away when the node boots. That is logged once, and the certificate arrives soon after
// it is back.
func TestServerAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		a.goAway(true)
		n.bootstrapTo(a)
		registry := prometheus.NewRegistry()
		c := n.start(a, func(cfg *ClientConfig) { cfg.Metrics = registry })
		if left := metric(t, registry, "kubelet_certificate_manager_client_ttl_seconds"); !math.IsInf(left, 1) {
			t.Errorf("no certificate is good for %v seconds; want no end", left)
		}
		time.Sleep(time.Hour)
		if warned := n.log.Count("level=WARN"); warned != 1 {
			t.Errorf("%d warnings; want one", warned)
		}
		if failed := metric(t, registry, "kubelet_certificate_manager_client_expiration_renew_errors"); failed < 100 || failed > 130 {
			t.Errorf("%v failures in an hour; want one each half a minute", failed)
		}
		back := time.Now()
		a.goAway(false)
		awaitMe(t, c)
		if took := time.Since(back); took > 40*time.Second {
			t.Errorf("it took %v until requests get through", took)
		}
		await(t, "the end of the failure is logged", func() bool { return n.log.Count("the failure is over") == 1 })
	})
}

// Files that were half written at a power failure count as missing.
func TestHalfWritten(t *testing.T) {
	for name, damage := range map[string]func(n *node){
		"the certificate": func(n *node) { n.cutShort(n.pem()) },
		"the kubeconfig":  func(n *node) { n.cutShort(n.kubeconfig()) },
		"the pending key": func(n *node) {
			n.write(n.path("pki/kubelet-client.key.tmp"), []byte("-----BEGIN EC PRIVATE KEY-----\nMHcC"))
			n.remove(n.kubeconfig())
		},
		"the link to the certificate": func(n *node) {
			target, err := os.Readlink(n.pem())
			if err == nil {
				err = os.Symlink(target, n.path("pki/kubelet-client-updated.pem"))
			}
			if err != nil {
				n.t.Fatal(err)
			}
			n.remove(n.pem())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, n := newAPI(t), newNode(t)
				n.bootstrapTo(a)
				c := n.client(a)
				end := run(t, c.Run)
				awaitMe(t, c)
				end()
				damage(n)
				time.Sleep(time.Minute)
				c = n.start(a)
				awaitMe(t, c)
			})
		})
	}
}

// cutShort leaves the first half of a file.
func (n *node) cutShort(path string) {
	n.t.Helper()
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	data := n.read(path)
	n.write(path, data[:len(data)/2])
}

// A signer whose clock is slow signs certificates that have already expired.
func TestExpiredOnArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		a.life = -time.Minute
		n.bootstrapTo(a)
		c := n.start(a)
		time.Sleep(time.Hour)
		if exists(n.kubeconfig()) || exists(n.pem()) {
			t.Error("an expired certificate is kept")
		}
		a.set(func() { a.life = time.Hour })
		awaitMe(t, c)
	})
}

// A kubeconfig that a user writes while the bootstrap waits is used at once, and isn't overwritten.
func TestKubeconfigComesBeforeTheCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		a.decision = leave
		n.bootstrapTo(a)
		c := n.start(a)
		a.awaitRequests(1)
		theirs := n.kubeconfigFor(a, clientcmdapi.AuthInfo{Token: "theirs"})
		n.write(n.kubeconfig(), theirs)
		time.Sleep(2 * time.Second)
		if who, err := whoAmI(clientset(t, c)); who != "theirs" {
			t.Errorf("requests get through as %q, %v; want theirs", who, err)
		}
		a.decideAll(approve)
		time.Sleep(time.Hour)
		if !bytes.Equal(n.read(n.kubeconfig()), theirs) {
			t.Error("their kubeconfig was written over")
		}
	})
}
