package access

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/certtest"
)

// nodeRules gives the nodes their pods, and names of the clients' CA other roles.
const nodeRules = `clients:
- {commonName: "system:node:pet", role: inspector}
- {systemNodes: true, role: consumer, sources: [api]}
- {commonName: "system:node:a", role: operator}
- {organization: "system:nodes", role: operator, nodes: [z]}
- {commonName: "admin", role: operator}
`

// TestSystemNodes: a certificate of the nodes' CA has the role consumer for the one node of its name, and no other role;
// a certificate of the clients' CA is never a node.
func TestSystemNodes(t *testing.T) {
	clients, nodes, other := certtest.NewCA(t, "clients"), certtest.NewCA(t, "nodes"), certtest.NewCA(t, "other")
	between := nodes.NewCA("between")
	a := openNodes(t, clients, nodes, nodeRules, &strings.Builder{})
	leaf := func(subject pkix.Name, change func(*x509.Certificate)) x509.Certificate {
		c := x509.Certificate{Subject: subject, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		if change != nil {
			change(&c)
		}
		return c
	}
	node := func(cn string, organizations ...string) x509.Certificate {
		return leaf(pkix.Name{CommonName: cn, Organization: organizations}, nil)
	}
	twoNames := pkix.Name{Organization: []string{"system:nodes"}, ExtraNames: []pkix.AttributeTypeAndValue{
		{Type: commonNameOID, Value: "system:node:a"}, {Type: commonNameOID, Value: "system:node:b"},
	}}
	otherType := leaf(pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes"}, ExtraNames: []pkix.AttributeTypeAndValue{
		{Type: asn1.ObjectIdentifier{2, 5, 4, 5}, Value: "system:node:b"},
	}}, nil)
	for name, tc := range map[string]struct {
		ca       *certtest.CA
		cert     x509.Certificate
		through  *certtest.CA
		want     string // the caller; empty: the handshake fails
		identity string
	}{
		"a node":                       {ca: nodes, cert: node("system:node:a", "system:nodes"), want: `consumer of nodes ["a"] and sources ["api"]`},
		"a name with a dot":            {ca: nodes, cert: node("system:node:a.example", "system:nodes"), want: `consumer of nodes ["a.example"] and sources ["api"]`},
		"several organizations":        {ca: nodes, cert: node("system:node:a", "x", "system:nodes"), want: `consumer of nodes ["a"] and sources ["api"]`},
		"another attribute":            {ca: nodes, cert: otherType, want: `consumer of nodes ["a"] and sources ["api"]`},
		"an intermediate CA":           {ca: between, through: between, cert: node("system:node:a", "system:nodes"), want: `consumer of nodes ["a"] and sources ["api"]`},
		"an earlier entry by name":     {ca: nodes, cert: node("system:node:pet", "system:nodes"), want: `consumer of nodes ["pet"] and sources ["api"]`},
		"no organization":              {ca: nodes, cert: node("system:node:a"), want: "none"},
		"another organization":         {ca: nodes, cert: node("system:node:a", "system:masters"), want: "none"},
		"the organization's case":      {ca: nodes, cert: node("system:node:a", "System:Nodes"), want: "none"},
		"no name":                      {ca: nodes, cert: node("", "system:nodes"), want: "none"},
		"an empty node":                {ca: nodes, cert: node("system:node:", "system:nodes"), want: "none"},
		"no prefix":                    {ca: nodes, cert: node("a", "system:nodes"), want: "none"},
		"capital letters":              {ca: nodes, cert: node("system:node:A", "system:nodes"), want: "none"},
		"a path":                       {ca: nodes, cert: node("system:node:../a", "system:nodes"), want: "none"},
		"a pattern":                    {ca: nodes, cert: node("system:node:*", "system:nodes"), want: "none"},
		"a control character":          {ca: nodes, cert: node("system:node:a\n", "system:nodes"), want: "none"},
		"a very long name":             {ca: nodes, cert: node("system:node:"+strings.Repeat("a", 300), "system:nodes"), want: "none"},
		"two names":                    {ca: nodes, cert: leaf(twoNames, nil), want: "none"},
		"an entry of the clients' CA":  {ca: nodes, cert: node("admin", "system:masters"), want: "none"},
		"the CA of clients: operator":  {ca: clients, cert: node("system:node:a", "x"), want: "operator", identity: "certificate:system:node:a"},
		"the CA of clients: inspector": {ca: clients, cert: node("system:node:pet", "system:nodes"), want: "inspector", identity: "certificate:system:node:pet"},
		"the CA of clients: by group":  {ca: clients, cert: node("system:node:b", "system:nodes"), want: `operator of nodes ["z"] and sources []`, identity: "certificate:system:node:b"},
		"the CA of clients: a user":    {ca: clients, cert: node("admin"), want: "operator"},
		"another CA":                   {ca: other, cert: node("system:node:a", "system:nodes")},
		"expired": {ca: nodes, cert: leaf(pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes"}}, func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		})},
		"not yet valid": {ca: nodes, cert: leaf(pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes"}}, func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
		})},
		"a server's certificate": {ca: nodes, cert: leaf(pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes"}}, func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			pair := tc.ca.Pair(tc.cert)
			if tc.through != nil {
				pair.Certificate = append(pair.Certificate, tc.through.Certificate.Raw)
			}
			info, err := connect(t, a, clients, pair)
			if tc.want == "" {
				if err == nil {
					t.Errorf("the handshake succeeded as %+v", info.Caller())
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			identity := tc.identity
			if identity == "" {
				identity = info.Certificates[0].Subject.CommonName
				if tc.want == "none" && strings.HasPrefix(identity, nodeUserPrefix) {
					identity = "certificate:" + identity
				}
			}
			if got := info.Caller(); got.describe() != tc.want || got.Identity != identity {
				t.Errorf("the caller is %s, %q; want %s, %q", got.describe(), got.Identity, tc.want, identity)
			}
		})
	}
}

// TestNodesOfBothCAs: a CA in both files signs nodes and clients.
func TestNodesOfBothCAs(t *testing.T) {
	ca := certtest.NewCA(t, "both")
	a := openNodes(t, ca, ca, nodeRules, &strings.Builder{})
	for cn, want := range map[string]string{"system:node:pet": "inspector", "system:node:b": `consumer of nodes ["b"] and sources ["api"]`, "admin": `operator of nodes ["z"] and sources []`} {
		c := client(t, a, ca, certtest.Request{CommonName: cn, Organization: nodesGroup}).Caller()
		if c.describe() != want || c.Identity != cn {
			t.Errorf("%s is %s, %q; want %s", cn, c.describe(), c.Identity, want)
		}
	}
}

// TestNodesCAChanges: a connection ends if its certificate's CA is no longer the nodes', and stays if one is added.
func TestNodesCAChanges(t *testing.T) {
	clients, old, next := certtest.NewCA(t, "clients"), certtest.NewCA(t, "old"), certtest.NewCA(t, "next")
	files := newTLSFiles(t, clients, nodeRules)
	files.write(t, "nodes", old.PEM)
	cfg := files.config()
	cfg.NodeClientCAFile = files.dir + "/nodes"
	a := open(t, cfg, &strings.Builder{})
	of := func(ca *certtest.CA) *AuthInfo {
		return client(t, a, ca, certtest.Request{CommonName: "system:node:a", Organization: nodesGroup})
	}
	reload := func(name string, parts ...[]byte) {
		files.write(t, name, slices.Concat(parts...))
		a.Reload()
		a.Reload()
	}
	first := of(old)
	reload("nodes", old.PEM, next.PEM)
	if err := a.Recheck(first); err != nil {
		t.Errorf("another CA is added: %v; want nil", err)
	}
	second := of(next)
	reload("nodes", next.PEM)
	if err := a.Recheck(first); err == nil || !strings.Contains(err.Error(), "isn't valid any more") {
		t.Errorf("its CA is removed: %v", err)
	}
	if err := a.Recheck(second); err != nil {
		t.Errorf("another CA is removed: %v; want nil", err)
	}
	// The CA becomes one of clients: the certificate is still good, and the caller another one.
	reload("ca", next.PEM)
	reload("nodes", old.PEM)
	if err := a.Recheck(second); err == nil || !strings.Contains(err.Error(), "role or scope has changed") {
		t.Errorf("its CA is one of clients now: %v", err)
	}
}

// TestNodesNeedTheirCA: an entry for nodes without their CA is an error, also when it is added later; a CA without an
// entry is reported.
func TestNodesNeedTheirCA(t *testing.T) {
	ca := certtest.NewCA(t, "ca")
	files := newTLSFiles(t, ca, nodeRules)
	if _, err := New(files.config()); err == nil || !strings.Contains(err.Error(), "clients[1]: systemNodes needs the CA") {
		t.Errorf("an entry without a CA: %v", err)
	}
	files.write(t, "access", []byte("clients:\n- {commonName: admin, role: operator}\n"))
	var log strings.Builder
	a := open(t, files.config(), &log)
	files.write(t, "access", []byte(nodeRules))
	a.Reload()
	a.Reload()
	if !strings.Contains(log.String(), "systemNodes needs the CA") || a.rules.Load().entries[0].SystemNodes {
		t.Errorf("an entry that is added later without a CA: the log is %q", log.String())
	}
	log.Reset()
	openNodes(t, ca, ca, "clients:\n- {commonName: admin, role: operator}\n", &log)
	if !strings.Contains(log.String(), "no entry of the access file has systemNodes") {
		t.Errorf("a CA without an entry: the log is %q", log.String())
	}
}

func openNodes(t *testing.T, clients, nodes *certtest.CA, rules string, log *strings.Builder) *Access {
	t.Helper()
	files := newTLSFiles(t, clients, rules)
	files.write(t, "nodes", nodes.PEM)
	cfg := files.config()
	cfg.NodeClientCAFile = files.dir + "/nodes"
	return open(t, cfg, log)
}

// connect has a client with this certificate connect over TCP.
func connect(t *testing.T, a *Access, server *certtest.CA, pair tls.Certificate) (*AuthInfo, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{
			RootCAs: server.Pool(), MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"},
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil },
		})
		if err == nil {
			_, _ = conn.Read(make([]byte, 1)) // until the server closes it
			_ = conn.Close()
		}
	}()
	info, err := handshake(t, a, l)
	_ = l.Close()
	<-done
	return info, err
}
