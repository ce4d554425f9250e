package nodecert

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const me = "system:node:n1"

// isMe tells whether requests get through as this node's.
func isMe(t *testing.T, c *Client) func() bool {
	client := clientset(t, c)
	return func() bool {
		who, err := whoAmI(client)
		return err == nil && who == me
	}
}

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
		await(t, "the request is made", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.created == 1 })
		synctest.Wait()
		if exists(n.kubeconfig()) {
			t.Error("there is a kubeconfig before there is a certificate")
		}
		a.decideAll(approve)
		await(t, "requests get through, of the client that was there before", func() bool { who, err := whoAmI(client); return err == nil && who == me })

		info, err := os.Stat(n.kubeconfig())
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the kubeconfig: %v, %v; want 0600", info.Mode(), err)
		}
		if bytes.Contains(n.read(n.kubeconfig()), []byte(token)) {
			t.Error("the kubeconfig has the bootstrap token")
		}
		// That is what podconfigd does.
		said, _, err := readKubeconfig(n.kubeconfig())
		if err != nil || said.cert == nil || said.cert.Leaf.Subject.CommonName != me || said.config.Host != "https://"+apiHost+":6443" {
			t.Errorf("the kubeconfig says %+v, %v", said, err)
		}
		if a.created != 1 || exists(filepath.Join(n.dir, "pki", "kubelet-client.key.tmp")) {
			t.Errorf("%d requests were made; want one, and no key left beside it", a.created)
		}
	})
}

// Who is killed while a request waits takes it up again: neither a second request nor a second key.
func TestKilledBeforeTheCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		a.decision = leave
		n.bootstrapTo(a)
		for range 3 {
			end := run(t, n.client(a).Run)
			await(t, "the request is made", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.created > 0 })
			synctest.Wait()
			end()
		}
		a.decideAll(approve)
		c := n.client(a)
		run(t, c.Run)
		await(t, "requests get through", isMe(t, c))
		if a.created != 1 {
			t.Errorf("%d requests were made; want one", a.created)
		}
	})
}

// Who is killed when the certificate has come, but before the kubeconfig is written, writes it at the next start.
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
		client, err := kubernetes.NewForConfig(&rest.Config{Host: placeholder, Transport: way})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.issuer.issue(t.Context(), client, c.request()); err != nil {
			t.Fatal(err)
		}
		c = n.client(a)
		run(t, c.Run)
		await(t, "requests get through", isMe(t, c))
		if a.created != 1 {
			t.Errorf("%d requests were made; want one", a.created)
		}
	})
}

func mustRead(t *testing.T, path string) *kubeconfig {
	t.Helper()
	k, _, err := readKubeconfig(path)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Through many lives of a certificate there is no moment at which requests don't get through, and what is open under an old one is closed.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		n.bootstrapTo(a)
		registry := prometheus.NewRegistry()
		c := n.client(a, func(cfg *ClientConfig) { cfg.Metrics = registry })
		run(t, c.Run)
		good := isMe(t, c)
		await(t, "requests get through", good)
		first := a.serial
		watch, err := clientset(t, c).CertificatesV1().CertificateSigningRequests().Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=none"})
		if err != nil {
			t.Fatal(err)
		}
		for range 300 {
			time.Sleep(time.Minute)
			if !good() {
				t.Fatalf("at %v requests don't get through", time.Now())
			}
		}
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
		if n := n.log.count("level=WARN"); n != 0 {
			t.Errorf("%d warnings", n)
		}
	})
}

// A kubeconfig that holds a certificate, as an installer writes it, is made to name the one that is renewed: podconfigd goes by it too.
func TestRotationOfWhatTheKubeconfigHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		certPEM, keyPEM := a.ca.pair(t, forNode("n1", time.Hour))
		n.write(n.kubeconfig(), n.kubeconfigFor(a, clientcmdapi.AuthInfo{ClientCertificateData: certPEM, ClientKeyData: keyPEM}))
		c := n.client(a, func(cfg *ClientConfig) { cfg.BootstrapKubeconfig = "" })
		run(t, c.Run)
		good := isMe(t, c)
		for range 120 {
			time.Sleep(time.Minute)
			if !good() {
				t.Fatalf("at %v requests don't get through", time.Now())
			}
		}
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
		certPEM, keyPEM := a.ca.pair(t, forNode("admin", time.Hour))
		n.write(n.kubeconfig(), n.kubeconfigFor(a, clientcmdapi.AuthInfo{ClientCertificateData: certPEM, ClientKeyData: keyPEM}))
		c := n.client(a)
		run(t, c.Run)
		await(t, "requests get through as this node's", isMe(t, c))
		if a.created != 1 {
			t.Errorf("%d requests were made; want one", a.created)
		}
	})
}

func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		a.decision = deny
		n.bootstrapTo(a)
		c := n.client(a)
		run(t, c.Run)
		time.Sleep(time.Hour)
		a.mu.Lock()
		if a.created < 2 || a.created > 13 {
			t.Errorf("%d requests were made in an hour of refusals; want one each five minutes", a.created)
		}
		a.decision = approve
		a.mu.Unlock()
		if n.log.count("a certificate was refused") != 1 || n.log.count("not in here") != 1 {
			t.Errorf("the refusal isn't told once, with its reason")
		}
		await(t, "requests get through", isMe(t, c))
	})
}

// Nobody approves for an hour: one request, told once.
func TestNotApproved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		a.decision = leave
		n.bootstrapTo(a)
		c := n.client(a)
		run(t, c.Run)
		time.Sleep(time.Hour)
		if a.created != 1 || n.log.count("waits for somebody to approve it") != 1 {
			t.Errorf("%d requests were made; want one that is told of once", a.created)
		}
		a.decideAll(approve)
		await(t, "requests get through", isMe(t, c))
	})
}

// The API server goes while a request waits, which is nothing to tell at each try, and comes back.
func TestServerGoesWhileARequestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		a.decision = leave
		n.bootstrapTo(a)
		c := n.client(a)
		run(t, c.Run)
		await(t, "the request is made", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.created == 1 })
		time.Sleep(time.Second)
		a.goAway(true)
		time.Sleep(time.Hour)
		if told := n.log.count("level=WARN") + n.log.count("level=ERROR"); told > 2 {
			t.Errorf("%d warnings; want one each of the request and the server", told)
		}
		a.goAway(false)
		a.decideAll(approve)
		await(t, "requests get through", isMe(t, c))
	})
}

// The API server may be away when the node boots. That is told once, and made good soon after it is back.
func TestServerAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		a.goAway(true)
		n.bootstrapTo(a)
		registry := prometheus.NewRegistry()
		c := n.client(a, func(cfg *ClientConfig) { cfg.Metrics = registry })
		run(t, c.Run)
		if left := metric(t, registry, "kubelet_certificate_manager_client_ttl_seconds"); !math.IsInf(left, 1) {
			t.Errorf("no certificate is good for %v seconds; want no end", left)
		}
		time.Sleep(time.Hour)
		if warned := n.log.count("level=WARN"); warned != 1 {
			t.Errorf("%d warnings; want one", warned)
		}
		if failed := metric(t, registry, "kubelet_certificate_manager_client_expiration_renew_errors"); failed < 100 || failed > 130 {
			t.Errorf("%v failures in an hour; want one each half a minute", failed)
		}
		back := time.Now()
		a.goAway(false)
		await(t, "requests get through", isMe(t, c))
		if took := time.Since(back); took > 40*time.Second {
			t.Errorf("it took %v until requests get through", took)
		}
		await(t, "its end is told", func() bool { return n.log.count("it is well again") == 1 })
	})
}

// A certificate that expired while the node was off can't be renewed by itself: the node begins as a new one does.
func TestExpiredWhileOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		n.bootstrapTo(a)
		c := n.client(a)
		end := run(t, c.Run)
		await(t, "requests get through", isMe(t, c))
		end()
		time.Sleep(2 * time.Hour)

		alone := n.client(a, func(cfg *ClientConfig) { cfg.BootstrapKubeconfig = "" })
		end = run(t, alone.Run)
		time.Sleep(time.Hour)
		if _, err := whoAmI(clientset(t, alone)); !apierrors.IsUnauthorized(err) {
			t.Errorf("a request with an expired certificate: %v; want that it is unauthorized", err)
		}
		if n.log.count("no bootstrap kubeconfig") != 1 {
			t.Errorf("it isn't told once that the certificate has expired")
		}
		end()

		c = n.client(a)
		run(t, c.Run)
		await(t, "requests get through", isMe(t, c))
	})
}

// What was half written when the power failed counts as not there.
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
				await(t, "requests get through", isMe(t, c))
				end()
				damage(n)
				time.Sleep(time.Minute)
				c = n.client(a)
				run(t, c.Run)
				await(t, "requests get through again", isMe(t, c))
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

// The renewed certificate is damaged, and the kubeconfig has one that is still good.
func TestRenewedOneDamaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		certPEM, keyPEM := a.ca.pair(t, forNode("n1", time.Hour))
		n.write(n.kubeconfig(), n.kubeconfigFor(a, clientcmdapi.AuthInfo{ClientCertificateData: certPEM, ClientKeyData: keyPEM}))
		n.write(n.pem(), []byte("-----BEGIN CERTIFICATE-----\nMIIB"))
		c := n.client(a)
		run(t, c.Run)
		await(t, "requests get through", isMe(t, c))
		if n.log.count("can't be read") == 0 {
			t.Error("it isn't told that the renewed certificate is damaged")
		}
	})
}

// A kubeconfig with a token comes late, and is replaced by one for another cluster, and by one that is no good.
func TestKubeconfigChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, n := newAPI(t), newAPI(t), newNode(t)
		now := a
		c := n.client(a, func(cfg *ClientConfig) {
			cfg.BootstrapKubeconfig = ""
			cfg.Dial = dialOf(func() *api { return now })
		})
		run(t, c.Run)
		client := clientset(t, c)
		is := func(want string) func() bool {
			return func() bool { who, err := whoAmI(client); return err == nil && who == want }
		}
		time.Sleep(time.Hour)
		if n.log.count("level=WARN") != 0 || n.log.count("no kubeconfig yet") != 1 {
			t.Errorf("that there is no kubeconfig yet isn't told once, quietly")
		}
		n.write(n.kubeconfig(), n.kubeconfigFor(a, clientcmdapi.AuthInfo{Token: "one"}))
		await(t, "requests get through with the token", is("one"))

		// Another cluster has another CA, which the old one's clients don't trust.
		now = b
		a.cut()
		n.write(n.kubeconfig(), n.kubeconfigFor(b, clientcmdapi.AuthInfo{Token: "two"}))
		await(t, "requests get through to the other cluster", is("two"))

		n.write(n.kubeconfig(), []byte("half a kubecon"))
		time.Sleep(time.Hour)
		if !is("two")() {
			t.Error("requests don't get through by what was good before")
		}
		if n.log.count("the kubeconfig can't be used") != 1 || strings.Contains(n.log.String(), "half a kubecon") {
			t.Errorf("a kubeconfig that is no good isn't told once, or is quoted")
		}
		n.write(n.path("token"), []byte("three"))
		n.write(n.kubeconfig(), n.kubeconfigFor(b, clientcmdapi.AuthInfo{TokenFile: n.path("token")}))
		await(t, "requests get through with the token in a file", is("three"))
		n.write(n.path("token"), []byte("four"))
		await(t, "the next token is taken", is("four"))
		if a.created+b.created != 0 {
			t.Errorf("%d certificates were asked for; who has a token needs none", a.created+b.created)
		}
	})
}

func dialOf(now func() *api) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return now().dial(ctx, network, address)
	}
}

// A token file isn't there yet when the kubeconfig is.
func TestTokenFileComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		n.write(n.kubeconfig(), n.kubeconfigFor(a, clientcmdapi.AuthInfo{TokenFile: n.path("token")}))
		client := clientset(t, n.client(a, func(cfg *ClientConfig) { cfg.BootstrapKubeconfig = "" }))
		if _, err := whoAmI(client); !errors.Is(err, ErrNoServer) {
			t.Errorf("a request without the token: %v; want ErrNoServer", err)
		}
		n.write(n.path("token"), []byte("late"))
		await(t, "requests get through", func() bool { who, err := whoAmI(client); return err == nil && who == "late" })
	})
}

// Of the kubeconfig's certificate and the one that was renewed the younger counts, and what hasn't changed isn't read again.
func TestTheYoungerIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		certPEM, keyPEM := a.ca.pair(t, forNode("n1", time.Hour))
		n.write(n.kubeconfig(), n.kubeconfigFor(a, clientcmdapi.AuthInfo{ClientCertificateData: certPEM, ClientKeyData: keyPEM}))
		c := n.client(a)
		older := c.look(0)
		if c.look(0) != older {
			t.Error("what hasn't changed was read again")
		}
		time.Sleep(time.Minute)
		store, err := c.issuer.store()
		if err != nil {
			t.Fatal(err)
		}
		renewed, err := store.Update(a.ca.pair(t, forNode("n1", time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.look(0); !got.cert.Leaf.Equal(renewed.Leaf) {
			t.Error("the renewed certificate isn't taken")
		}
		time.Sleep(time.Minute)
		certPEM, keyPEM = a.ca.pair(t, forNode("n1", time.Hour))
		n.write(n.kubeconfig(), n.kubeconfigFor(a, clientcmdapi.AuthInfo{ClientCertificateData: certPEM, ClientKeyData: keyPEM}))
		if got := c.look(0); got.cert.Leaf.Equal(renewed.Leaf) || got.cert.Leaf.Equal(older.cert.Leaf) {
			t.Error("the kubeconfig's new certificate isn't taken")
		}
	})
}

// A signer whose clock is slow makes certificates that have expired when they come.
func TestExpiredOnArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		a.life = -time.Minute
		n.bootstrapTo(a)
		c := n.client(a)
		run(t, c.Run)
		time.Sleep(time.Hour)
		if exists(n.kubeconfig()) || exists(n.pem()) {
			t.Error("an expired certificate is kept")
		}
		a.mu.Lock()
		a.life = time.Hour
		a.mu.Unlock()
		await(t, "requests get through", isMe(t, c))
	})
}

// A kubeconfig that somebody puts there while the bootstrap waits is good at once, and isn't written over.
func TestKubeconfigComesBeforeTheCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		a.decision = leave
		n.bootstrapTo(a)
		c := n.client(a)
		run(t, c.Run)
		await(t, "the request is made", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.created == 1 })
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

// The API server's address may have a path, as behind some proxies.
func TestServerWithPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		a.server.Handler = http.StripPrefix("/clusters/c1", a.server.Handler)
		data := n.kubeconfigFor(a, clientcmdapi.AuthInfo{Token: "one"})
		n.write(n.kubeconfig(), bytes.Replace(data, []byte(apiHost+":6443"), []byte(apiHost+":6443/clusters/c1/"), 1))
		if who, err := whoAmI(clientset(t, n.client(a))); who != "one" {
			t.Errorf("it is %q who asks, %v", who, err)
		}
	})
}

// What is due goes by the wall's clock, also where that jumps.
func TestClockJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		certPEM, keyPEM := a.ca.pair(t, forNode("n1", time.Hour))
		n.write(n.kubeconfig(), n.kubeconfigFor(a, clientcmdapi.AuthInfo{ClientCertificateData: certPEM, ClientKeyData: keyPEM}))
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

func TestForgetsUsedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		certPEM, keyPEM := a.ca.pair(t, forNode("n1", time.Hour))
		n.write(n.kubeconfig(), n.kubeconfigFor(a, clientcmdapi.AuthInfo{ClientCertificateData: certPEM, ClientKeyData: keyPEM}))
		n.write(n.path("pki/kubelet-client.key.tmp"), keyPEM)
		c := n.client(a)
		run(t, c.Run)
		await(t, "it is renewed", func() bool { return exists(n.pem()) })
		if bytes.Contains(n.read(n.pem()), keyPEM) {
			t.Error("the renewed certificate has the key of the one before")
		}
	})
}
