package nodecert

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/podstream/podstream/internal/execsvc/cluster/apiclient"
	"github.com/podstream/podstream/internal/metrictest"
)

// addresses are the changing addresses of a node.
type addresses struct {
	mu  sync.Mutex
	now []v1.NodeAddress
}

func (a *addresses) set(ips ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = []v1.NodeAddress{{Type: v1.NodeHostName, Address: "n1"}}
	for _, ip := range ips {
		a.now = append(a.now, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip})
	}
}

func (a *addresses) get() []v1.NodeAddress {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now
}

// bootstrapping returns a Serving whose certificate the api signs.
func bootstrapping(t *testing.T, a *api, n *node, has *addresses, change ...func(*ServingConfig)) *Serving {
	t.Helper()
	n.write(n.kubeconfig(), n.kubeconfigFor(a, clientcmdapi.AuthInfo{Token: token}))
	way, err := newRoute(mustRead(t, n.kubeconfig()).config, nil, a.dial)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(way.retire)
	client, err := apiclient.New(&rest.Config{Host: placeholder, Transport: way})
	if err != nil {
		t.Fatal(err)
	}
	return n.serving(append(change, func(c *ServingConfig) { c.Bootstrap, c.Client, c.Addresses = true, client, has.get })...)
}

// presents returns a function that reports whether a certificate for the addresses is presented.
func presents(s *Serving, ips ...string) func() bool {
	return func() bool {
		c, err := presented(s)
		return err == nil && !slices.ContainsFunc(ips, func(ip string) bool { return c.VerifyHostname(ip) != nil })
	}
}

func TestServingSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		has := &addresses{}
		a.decision = leave
		has.set()
		s := bootstrapping(t, a, n, has)
		end := run(t, s.Run)
		time.Sleep(time.Hour)
		a.wantRequests(0) // The node has no address yet.
		has.set("10.0.0.1")
		a.awaitRequests(1)
		if _, err := presented(s); err == nil || !strings.Contains(err.Error(), errNoCertificate.Error()) {
			t.Errorf("a handshake before the certificate is signed: %v", err)
		}
		if n.log.Count("connections to the node's API are refused") != 1 {
			t.Errorf("the refused connections aren't logged once")
		}
		for _, c := range a.csrs {
			if c.Spec.SignerName != "kubernetes.io/kubelet-serving" {
				t.Errorf("the request is for the signer %s", c.Spec.SignerName)
			}
		}
		end()
		s = bootstrapping(t, a, n, has)
		run(t, s.Run)
		a.decideAll(approve)
		await(t, "the signed certificate is presented", presents(s, "n1", "10.0.0.1"))
		a.wantRequests(1)
	})
}

// New addresses need a new certificate, also while the one for the old addresses isn't signed yet. Removed
// addresses don't.
func TestServingSignedForNewAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		has := &addresses{}
		a.decision = leave
		has.set("10.0.0.1")
		s := bootstrapping(t, a, n, has)
		run(t, s.Run)
		a.awaitRequests(1)
		has.set("10.0.0.1", "10.0.0.2")
		changed := time.Now()
		a.awaitRequests(2)
		if took := time.Since(changed); took > 2*lookEvery {
			t.Errorf("it took %v until another request was made", took)
		}
		a.set(func() { a.decision = approve })
		a.decideAll(approve)
		await(t, "the certificate is presented", presents(s, "10.0.0.1", "10.0.0.2"))
		has.set("10.0.0.2", "fd00::1")
		await(t, "the next certificate is presented", presents(s, "10.0.0.2", "fd00::1"))
		has.set("10.0.0.2")
		time.Sleep(10 * time.Minute)
		a.wantRequests(3)
	})
}

const serverRotation = "kubelet_certificate_manager_server_rotation_seconds"

func TestServingRotates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		has := &addresses{}
		has.set("10.0.0.1")
		registry := prometheus.NewRegistry()
		s := bootstrapping(t, a, n, has, func(c *ServingConfig) { c.Metrics = registry })
		run(t, s.Run)
		good := presents(s, "10.0.0.1")
		await(t, "a certificate is presented", good)
		for range 300 {
			time.Sleep(time.Minute)
			c, err := presented(s)
			if err != nil || time.Now().After(c.NotAfter) {
				t.Fatalf("at %v no good certificate is presented: %v", time.Now(), err)
			}
		}
		if a.created < 5 || a.created > 8 {
			t.Errorf("in five hours %d certificates of one hour were asked for; want one each 42 to 54 minutes", a.created)
		}
		if left := metric(t, registry, "kubelet_certificate_manager_server_ttl_seconds"); left <= 0 || left > 3600 {
			t.Errorf("the certificate is good for %v seconds; it is one of an hour", left)
		}
		rotations := float64(a.created - 1)
		if n, sum := metrictest.Value(t, registry, serverRotation), metrictest.Sum(t, registry, serverRotation); n != rotations || sum < n*40*60 || sum > n*60*60 {
			t.Errorf("the ages of %v certificates add up to %v seconds; want %v of 40 to 60 minutes", n, sum, rotations)
		}
		a.goAway(true)
		time.Sleep(2 * time.Hour)
		if _, err := presented(s); err == nil || !strings.Contains(err.Error(), "it expired") {
			t.Errorf("a handshake with an expired certificate: %v", err)
		}
		if metric(t, registry, "kubelet_server_expiration_renew_errors") == 0 {
			t.Error("no failure is counted")
		}
		a.goAway(false)
		await(t, "a certificate is presented again", good)
	})
}
