package access

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// rules are the entries of the access file, in its order.
type rules struct {
	entries []entry
}

// entry gives a role to the callers that match all of its given fields. A nil field matches everything; an empty one
// is a mistake.
type entry struct {
	CommonName   *string `yaml:"commonName"`
	Organization *string `yaml:"organization"`
	URI          *string `yaml:"uri"`
	DNS          *string `yaml:"dns"`
	UID          *uint32 `yaml:"uid"`
	// SystemNodes matches the nodes of a cluster: the scope is the node of the certificate's name.
	SystemNodes bool `yaml:"systemNodes"`

	// Role, or Roles: deployer beside one other.
	Role     string   `yaml:"role"`
	Roles    []string `yaml:"roles"`
	Nodes    []string `yaml:"nodes"`
	Sources  []string `yaml:"sources"`
	deployer `yaml:",inline"`

	role   Role
	grants *Writes
}

// parseRules reads an access file. Errors start with the file's name and, if known, the line.
func parseRules(name string, data []byte) (*rules, error) {
	var file struct {
		Clients []entry `yaml:"clients"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	err := decoder.Decode(&file)
	if errors.Is(err, io.EOF) || err == nil && file.Clients == nil {
		return nil, fmt.Errorf(`%s: it has no list "clients"; for no roles, write "clients: []"`, name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var more yaml.Node
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: there is more than one YAML document; an access file is one", name)
	}
	lines := entryLines(data)
	for i := range file.Clients {
		e := &file.Clients[i]
		err := e.complete()
		if before := slices.IndexFunc(file.Clients[:i], e.matchesSame); err == nil && before >= 0 {
			err = fmt.Errorf("clients[%d] matches the same callers and comes first", before)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: clients[%d]: %w", name, lines[i], i, err)
		}
	}
	return &rules{file.Clients}, nil
}

// entryLines returns the first line of each entry. The data is known to decode.
func entryLines(data []byte) []int {
	var file struct {
		Clients []yaml.Node `yaml:"clients"`
	}
	_ = yaml.Unmarshal(data, &file)
	var lines []int
	for _, node := range file.Clients {
		lines = append(lines, node.Line)
	}
	return lines
}

// complete fills in the role, and returns the errors of the entry.
func (e *entry) complete() error {
	certificate := false
	for field, value := range e.certificateFields() {
		if value != nil && *value == "" {
			return fmt.Errorf("%s is empty; leave it out to match any", field)
		}
		certificate = certificate || value != nil
	}
	switch {
	case e.SystemNodes && (certificate || e.UID != nil):
		return errors.New("systemNodes determines the callers: leave out commonName, organization, uri, dns and uid")
	case e.SystemNodes && e.Nodes != nil:
		return errors.New("nodes is given, but with systemNodes it is the node of the certificate's name")
	case e.SystemNodes && (e.Role != Consumer.String() || e.Roles != nil):
		return fmt.Errorf("role: %q; with systemNodes it is consumer", e.Role)
	case !certificate && e.UID == nil && !e.SystemNodes:
		return errors.New("the entry names no callers: give commonName, organization, uri, dns, uid or systemNodes")
	case certificate && e.UID != nil:
		return errors.New("uid is about Unix sockets and the other fields about certificates: no caller has both")
	case e.UID != nil && *e.UID == noUID:
		return fmt.Errorf("uid: %d is no user's", *e.UID)
	}
	if err := e.completeRoles(); err != nil {
		return err
	}
	for field, scope := range map[string][]string{"nodes": e.Nodes, "sources": e.Sources} {
		if scope != nil && len(scope) == 0 {
			return fmt.Errorf("%s is empty, which would be none or all; leave it out for all", field)
		}
		for i, name := range scope {
			if name == "" || strings.TrimSpace(name) != name || strings.Contains(name, "*") {
				return fmt.Errorf("%s[%d]: %q; want a name, there are no patterns", field, i, name)
			}
		}
	}
	return nil
}

// completeRoles fills in the role, and what the entry's callers may write.
func (e *entry) completeRoles() error {
	roles, field := e.Roles, "roles"
	if e.Roles == nil {
		roles, field = []string{e.Role}, "role"
	}
	switch {
	case e.Roles != nil && e.Role != "":
		return errors.New("role and roles are given; give one of them")
	case len(roles) == 0 || len(roles) > 2:
		return errors.New("roles: want one role, or deployer and another one")
	}
	deploys := false
	for _, name := range roles {
		role, ok := roleNames[name]
		switch {
		case !ok:
			return fmt.Errorf("%s: %q; want operator, consumer, inspector or deployer", field, name)
		case role == Deployer && !deploys:
			deploys = true
		case role == Deployer || e.role != None:
			return errors.New("roles: want one role, or deployer and another one")
		default:
			e.role = role
		}
	}
	if !deploys {
		if e.given() {
			return errors.New("namespaces, podSecurity, maxPods and maxBytes are for the role deployer")
		}
		return nil
	}
	if e.role == None {
		if e.Nodes != nil || e.Sources != nil {
			return errors.New("nodes and sources: a deployer sees only the pods that it has applied; leave them out")
		}
		e.role, e.Sources = Deployer, []string{appliedSource}
	}
	var err error
	e.grants, err = e.writes()
	return err
}

// roleNames are the roles of the access file.
var roleNames = map[string]Role{
	Inspector.String(): Inspector, Consumer.String(): Consumer, Operator.String(): Operator, Deployer.String(): Deployer,
}

func (e *entry) certificateFields() map[string]*string {
	return map[string]*string{"commonName": e.CommonName, "organization": e.Organization, "uri": e.URI, "dns": e.DNS}
}

// matchesSame reports whether both entries match the same callers.
func (e *entry) matchesSame(o entry) bool {
	return samePtr(e.CommonName, o.CommonName) && samePtr(e.Organization, o.Organization) && samePtr(e.URI, o.URI) &&
		samePtr(e.DNS, o.DNS) && samePtr(e.UID, o.UID) && e.SystemNodes == o.SystemNodes
}

func samePtr[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// checkNoNodes returns an error if an entry is for nodes.
func (r *rules) checkNoNodes(file string) error {
	if i := slices.IndexFunc(r.entries, func(e entry) bool { return e.SystemNodes }); i >= 0 {
		return fmt.Errorf("%s: clients[%d]: systemNodes needs the CA of the nodes' certificates: give --node-client-ca-file", file, i)
	}
	return nil
}

// find returns the first entry that matches, by uid if there is no certificate, or nil. v says which CAs verify the
// certificate.
func (r *rules) find(uid uint32, certificate *x509.Certificate, v *verified) *entry {
	for i := range r.entries {
		if e := &r.entries[i]; e.matches(uid, certificate, v) {
			return e
		}
	}
	return nil
}

func (e *entry) matches(uid uint32, c *x509.Certificate, v *verified) bool {
	switch {
	case e.UID != nil || c == nil:
		return e.UID != nil && c == nil && *e.UID == uid
	case e.SystemNodes:
		return v.node && nodeOf(c) != ""
	case !v.client:
		return false // The CA of a cluster signs any name.
	}
	if e.CommonName != nil && *e.CommonName != c.Subject.CommonName ||
		e.Organization != nil && !slices.Contains(c.Subject.Organization, *e.Organization) ||
		e.DNS != nil && !slices.Contains(c.DNSNames, *e.DNS) {
		return false
	}
	if e.URI == nil {
		return true
	}
	for _, uri := range c.URIs {
		if uri.String() == *e.URI {
			return true
		}
	}
	return false
}
