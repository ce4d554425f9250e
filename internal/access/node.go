package access

import (
	"crypto/x509"
	"encoding/asn1"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The user name and group of a node at the API server, which are the common name and an organization of its certificate.
const (
	nodeUserPrefix = "system:node:"
	nodesGroup     = "system:nodes"
)

var commonNameOID = asn1.ObjectIdentifier{2, 5, 4, 3}

// nodeOf returns the node whose certificate this is, or "". The certificate has the organization system:nodes and one
// common name, system:node:NAME, in which NAME can be the name of a Node object.
func nodeOf(c *x509.Certificate) string {
	name, ok := strings.CutPrefix(c.Subject.CommonName, nodeUserPrefix)
	if !ok || !slices.Contains(c.Subject.Organization, nodesGroup) || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return ""
	}
	names := 0
	for _, n := range c.Subject.Names {
		if n.Type.Equal(commonNameOID) {
			names++
		}
	}
	if names != 1 {
		return ""
	}
	return name
}
