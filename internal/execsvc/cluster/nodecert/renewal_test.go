package nodecert

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

func TestServingRequest(t *testing.T) {
	for _, tc := range []struct {
		addresses []v1.NodeAddress
		want      string
	}{
		{nil, "none"},
		{[]v1.NodeAddress{{Type: v1.NodeHostName, Address: "n1"}}, "none"},
		{[]v1.NodeAddress{{Type: v1.NodeHostName, Address: "n1"}, {Type: v1.NodeInternalIP, Address: "10.0.0.2"}}, "[n1] [10.0.0.2]"},
		{[]v1.NodeAddress{{Type: v1.NodeHostName, Address: "10.0.0.2"}}, "[] [10.0.0.2]"},
		{
			[]v1.NodeAddress{
				{Type: v1.NodeInternalIP, Address: "fd00::1"}, {Type: v1.NodeExternalIP, Address: "10.0.0.2"}, {Type: v1.NodeInternalIP, Address: "10.0.0.2"},
				{Type: v1.NodeInternalIP, Address: "here"}, {Type: v1.NodeInternalDNS, Address: "z"}, {Type: v1.NodeExternalDNS, Address: "a"},
				{Type: v1.NodeHostName, Address: "z"}, {Type: v1.NodeHostName}, {Type: "Other", Address: "10.9.9.9"},
			},
			"[a z] [10.0.0.2 fd00::1]",
		},
	} {
		got := "none"
		if r := servingRequest("n1", tc.addresses); r != nil {
			got = fmt.Sprint(r.DNSNames, " ", r.IPAddresses)
			if r.Subject.CommonName != "system:node:n1" || len(r.Subject.Organization) != 1 || r.Subject.Organization[0] != "system:nodes" {
				t.Errorf("the request is for %v", r.Subject)
			}
		}
		if got != tc.want {
			t.Errorf("for %v the request has %s; want %s", tc.addresses, got, tc.want)
		}
	}
}

func TestSatisfies(t *testing.T) {
	cert := &tls.Certificate{Leaf: &x509.Certificate{
		Subject: subject("n1"), DNSNames: []string{"a", "b"}, IPAddresses: []net.IP{net.ParseIP("10.0.0.1"), net.ParseIP("fd00::1")},
	}}
	for name, tc := range map[string]struct {
		request x509.CertificateRequest
		want    bool
	}{
		"the same":             {x509.CertificateRequest{Subject: subject("n1"), DNSNames: []string{"b", "a"}, IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1).To4()}}, true},
		"less":                 {x509.CertificateRequest{Subject: subject("n1")}, true},
		"another node":         {x509.CertificateRequest{Subject: subject("n2")}, false},
		"another organization": {x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n1", Organization: []string{"x"}}}, false},
		"another name":         {x509.CertificateRequest{Subject: subject("n1"), DNSNames: []string{"a", "c"}}, false},
		"another address":      {x509.CertificateRequest{Subject: subject("n1"), IPAddresses: []net.IP{net.IPv4(10, 0, 0, 2)}}, false},
	} {
		if got := satisfies(cert, &tc.request); got != tc.want {
			t.Errorf("%s: %v; want %v", name, got, tc.want)
		}
	}
}

func TestYounger(t *testing.T) {
	now := time.Now()
	from := func(start, end time.Duration) *tls.Certificate {
		return &tls.Certificate{Leaf: &x509.Certificate{NotBefore: now.Add(start), NotAfter: now.Add(end)}}
	}
	old, young, past := from(-2*time.Hour, time.Hour), from(-time.Hour, time.Hour), from(-time.Hour, -time.Minute)
	for i, tc := range []struct{ a, b, want *tls.Certificate }{
		{old, nil, old}, {nil, old, old}, {old, young, young}, {young, old, young}, {old, past, old}, {past, old, old}, {nil, nil, nil}, {past, nil, past},
	} {
		if got := younger(tc.a, tc.b, now); got != tc.want {
			t.Errorf("case %d: %v", i, got)
		}
	}
}

func TestRenewAt(t *testing.T) {
	start := time.Now()
	c := &tls.Certificate{Leaf: &x509.Certificate{NotBefore: start, NotAfter: start.Add(100 * time.Hour)}}
	for range 1000 {
		if at := renewAt(c).Sub(start); at < 70*time.Hour || at > 90*time.Hour {
			t.Fatalf("a certificate of 100 hours is renewed after %v", at)
		}
	}
}
