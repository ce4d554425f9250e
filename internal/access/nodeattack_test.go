package access

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"os"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/certtest"
)

// nodeLeaf is the certificate of the node a.
var nodeLeaf = x509.Certificate{
	Subject:  pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes"}},
	KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
}

// TestNoNodeThroughAnotherCA: a client's CA, or a client, that makes an intermediate CA with the name of the nodes' CA makes
// no node; nor does a node that signs with its own certificate.
func TestNoNodeThroughAnotherCA(t *testing.T) {
	clients, nodes := certtest.NewCA(t, "ca"), certtest.NewCA(t, "ca")
	a := openNodes(t, clients, nodes, nodeRules, &strings.Builder{})
	through := func(issuer *certtest.CA, chain ...[]byte) tls.Certificate {
		pair := issuer.Pair(nodeLeaf)
		pair.Certificate = append(pair.Certificate, chain...)
		return pair
	}
	between := clients.NewCA("ca")
	info, err := connect(t, a, clients, through(between, between.Certificate.Raw, nodes.Certificate.Raw))
	if err != nil {
		t.Fatal(err)
	}
	// By name and group, the clients' CA is trusted with entries of the access file, but not with systemNodes.
	if c := info.Caller(); len(c.Nodes) > 0 || c.Identity != "certificate:system:node:a" {
		t.Errorf("through a client's intermediate CA: %s, %q", c.describe(), c.Identity)
	}
	rogue := certtest.NewCA(t, "ca")
	if info, err := connect(t, a, clients, through(rogue, rogue.Certificate.Raw, nodes.Certificate.Raw)); err == nil {
		t.Errorf("a CA of the same name: %s", info.Caller().describe())
	}
}

// TestOneOfTwoChainsEnds: the CA of nodes and that of clients have both signed an intermediate CA. When the first of the two
// certificates expires, the caller has to connect again, and isn't a node any more.
func TestOneOfTwoChainsEnds(t *testing.T) {
	clients, nodes := certtest.NewCA(t, "clients"), certtest.NewCA(t, "nodes")
	between := clients.NewCA("between")
	template := *between.Certificate
	template.NotAfter = time.Now().Add(time.Hour)
	cross := nodes.Sign(template, between.Certificate.PublicKey)
	files := newTLSFiles(t, clients, nodeRules)
	files.write(t, "nodes", nodes.PEM)
	cfg := files.config()
	now := clocktesting.NewFakeClock(time.Now())
	cfg.NodeClientCAFile, cfg.Clock = files.dir+"/nodes", now
	a := open(t, cfg, &strings.Builder{})
	pair := between.Pair(nodeLeaf)
	pair.Certificate = append(pair.Certificate, between.Certificate.Raw, cross.Raw)
	info, err := connect(t, a, clients, pair)
	if err != nil {
		t.Fatal(err)
	}
	want := `consumer of nodes ["a"] and sources ["api"]`
	if got := info.Caller().describe(); got != want {
		t.Fatalf("the caller is %s; want %s", got, want)
	}
	now.SetTime(time.Now().Add(2 * time.Hour))
	if err := a.Recheck(info); err == nil {
		t.Error("the nodes' chain has expired, and the caller stays a node")
	}
	if info, err = connect(t, a, clients, pair); err != nil {
		t.Fatal(err)
	}
	if got := info.Caller().describe(); got == want || info.verified.Load().node {
		t.Errorf("after a new connection the caller is %s", got)
	}
}

// TestNameOfANode: a certificate of a CA in both files that has a node's name, but not the nodes' organization, is another
// caller than the node: limits and consumers are counted by identity.
func TestNameOfANode(t *testing.T) {
	ca := certtest.NewCA(t, "both")
	a := openNodes(t, ca, ca, "clients:\n- {systemNodes: true, role: consumer}\n- {organization: support, role: inspector}\n", &strings.Builder{})
	for org, want := range map[string]string{"support": "certificate:system:node:a", "none": "certificate:system:node:a", nodesGroup: "system:node:a"} {
		if c := client(t, a, ca, certtest.Request{CommonName: "system:node:a", Organization: org}).Caller(); c.Identity != want {
			t.Errorf("organization %s: the identity is %q; want %q", org, c.Identity, want)
		}
	}
}

// TestNodesCABroken: while the file of the nodes' CAs is missing, empty, too large or without a certificate, the last good
// one stays in force, for new connections too.
func TestNodesCABroken(t *testing.T) {
	clients, nodes := certtest.NewCA(t, "clients"), certtest.NewCA(t, "nodes")
	files := newTLSFiles(t, clients, nodeRules)
	files.write(t, "nodes", nodes.PEM)
	cfg := files.config()
	cfg.NodeClientCAFile = files.dir + "/nodes"
	a := open(t, cfg, &strings.Builder{})
	first, err := connect(t, a, clients, nodes.Pair(nodeLeaf))
	if err != nil {
		t.Fatal(err)
	}
	for what, data := range map[string][]byte{
		"missing": nil, "empty": {}, "blank": []byte("\n \n"), "huge": make([]byte, maxFile+1),
		"no certificate": []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
	} {
		if data == nil {
			if err := os.Remove(cfg.NodeClientCAFile); err != nil {
				t.Fatal(err)
			}
		} else {
			files.write(t, "nodes", data)
		}
		for range 3 {
			a.Reload()
		}
		if err := a.Recheck(first); err != nil {
			t.Errorf("%s: the connection ends: %v", what, err)
		}
		if _, err := connect(t, a, clients, nodes.Pair(nodeLeaf)); err != nil {
			t.Errorf("%s: a new connection: %v", what, err)
		}
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: the daemon starts", what)
		}
	}
}
