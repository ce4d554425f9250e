package sourceconfig

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/kubeletconfig"
	"github.com/podstream/podstream/internal/kubeletconfig/document"
	ocisource "github.com/podstream/podstream/internal/sources/oci"
)

// The kind of document that configures sources.
const (
	apiVersion = "podstream.io/v1alpha1"
	kind       = "PodSources"
)

// podSources is a document as it is written.
type podSources struct {
	APIVersion      string      `json:"apiVersion"`
	Kind            string      `json:"kind"`
	Files           []fileEntry `json:"files"`
	URLs            []urlEntry  `json:"urls"`
	OCI             []ociEntry  `json:"oci"`
	Relays          []relay     `json:"relays"`
	APIServer       *apiServer  `json:"apiServer"`
	Applied         *applied    `json:"applied"`
	Nodes           []string    `json:"nodes"`
	Order           []string    `json:"order"`
	StrictManifests *bool       `json:"strictManifests"`
}

type fileEntry struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

type urlEntry struct {
	Name     string              `json:"name"`
	URL      string              `json:"url"`
	Headers  map[string][]string `json:"headers"`
	CAFile   string              `json:"caFile"`
	CertFile string              `json:"certFile"`
	KeyFile  string              `json:"keyFile"`
}

type ociEntry struct {
	Name            string           `json:"name"`
	Reference       string           `json:"reference"`
	PublicKeyFile   string           `json:"publicKeyFile"`
	CredentialsFile string           `json:"credentialsFile"`
	CAFile          string           `json:"caFile"`
	TokenHost       string           `json:"tokenHost"`
	Interval        *metav1.Duration `json:"interval"`
	Monotonic       bool             `json:"monotonic"`
	AnyRepository   bool             `json:"anyRepository"`
	Insecure        bool             `json:"insecure"`
}

type relay struct {
	Name         string `json:"name"`
	Address      string `json:"address"`
	AddressOrder string `json:"addressOrder"`
	CAFile       string `json:"caFile"`
	CertFile     string `json:"certFile"`
	KeyFile      string `json:"keyFile"`
}

type apiServer struct {
	Kubeconfig string `json:"kubeconfig"`
	InCluster  bool   `json:"inCluster"`
	ClusterUID string `json:"clusterUID"`
}

type applied struct {
	Enabled bool `json:"enabled"`
}

// place makes an error about a field of the input: with file and line, or the flag. Without a field it is about the
// whole.
type place func(field, reason string) error

// draft is a source as it was configured, before it is checked.
type draft struct {
	kind Kind
	// short is the name without the kind; it may be empty.
	short string
	at    place
	// atHeader makes an error about a header in that header's place, without its name. Nil: at is as exact.
	atHeader func(name, reason string) error
	// from is its file.
	from string

	// path, url, address and kubeconfig are the location of the source, by its kind.
	path, url, address, kubeconfig string
	addressOrder                   string
	inCluster                      bool
	// clusterUID is the API server's; empty: any.
	clusterUID string
	// oci are the settings of an artifact; nil for other kinds. Its Strict isn't set.
	oci     *OCISettings
	headers map[string][]string
	tls     TLSFiles
}

func (d draft) name() string {
	if d.short == "" {
		return string(d.kind)
	}
	return string(d.kind) + ":" + d.short
}

// list is a list of names, and its place. A nil list isn't set.
type list struct {
	values []string
	at     place
}

// collected is the result of all documents of the kind.
type collected struct {
	drafts       map[Kind][]draft
	nodes, order *list
	strict       *bool
	// applied is set if a document sets it.
	applied *bool
	// places are the indexes of the sources of each name among the drafts of their kind.
	places map[string]int
}

// decode reads the documents of kind PodSources, and refuses those of kinds that aren't read.
func decode(docs []kubeletconfig.Document) (*collected, error) {
	c := &collected{drafts: map[Kind][]draft{}, places: map[string]int{}}
	var mistakes []error
	for _, d := range docs {
		switch {
		case d.APIVersion == apiVersion && d.Kind == kind:
			mistakes = append(mistakes, c.add(d.Document))
		case d.APIVersion == kubeletconfig.APIVersion && d.Kind == kubeletconfig.Kind:
		default:
			mistakes = append(mistakes, d.Mistake(document.Field{"kind"}, fmt.Sprintf("want %s of %s, or %s of %s, not %s of %s",
				kubeletconfig.Kind, kubeletconfig.APIVersion, kind, apiVersion, d.Kind, d.APIVersion)))
		}
	}
	return c, errors.Join(mistakes...)
}

// add takes one document.
func (c *collected) add(d *document.Document) error {
	var in podSources
	found := d.Decode(&in)
	mistakes := append(append(found.Wrong, found.Unknown...), found.Doubled...)
	if len(mistakes) > 0 {
		return errors.Join(mistakes...)
	}
	for _, entry := range in.drafts(d) {
		entry.from = d.File
		mistakes = append(mistakes, c.put(entry))
	}
	if in.Nodes != nil {
		c.nodes = &list{in.Nodes, placeOf(d, "nodes")}
	}
	if in.Order != nil {
		c.order = &list{in.Order, placeOf(d, "order")}
	}
	if in.StrictManifests != nil {
		c.strict = in.StrictManifests
	}
	if in.Applied != nil {
		c.applied = &in.Applied.Enabled
	}
	return errors.Join(document.Few(slices.DeleteFunc(mistakes, func(err error) bool { return err == nil }))...)
}

// drafts returns the sources of a document.
func (in *podSources) drafts(d *document.Document) []draft {
	var out []draft
	for i, f := range in.Files {
		out = append(out, draft{
			kind: File, short: f.Name, path: d.Resolve(f.Path), at: placeOf(d, "files", document.Index(i)),
		})
	}
	for i, u := range in.URLs {
		out = append(out, draft{
			kind: HTTP, short: u.Name, url: u.URL, headers: u.Headers, tls: resolve(d, u.CAFile, u.CertFile, u.KeyFile),
			at: placeOf(d, "urls", document.Index(i)),
			atHeader: func(name, reason string) error {
				return d.MistakeIn(document.Field{"urls", document.Index(i), "headers"}, name, reason)
			},
		})
	}
	for i, o := range in.OCI {
		settings := &OCISettings{
			Reference: o.Reference, PublicKeyFile: d.Resolve(o.PublicKeyFile), CredentialsFile: d.Resolve(o.CredentialsFile), CAFile: d.Resolve(o.CAFile),
			TokenHost: o.TokenHost, Interval: ocisource.DefaultInterval, Monotonic: o.Monotonic, AnyRepository: o.AnyRepository, Insecure: o.Insecure,
		}
		if o.Interval != nil {
			settings.Interval = o.Interval.Duration
		}
		out = append(out, draft{kind: OCI, short: o.Name, oci: settings, at: placeOf(d, "oci", document.Index(i))})
	}
	for i, r := range in.Relays {
		out = append(out, draft{
			kind: Relay, short: r.Name, address: r.Address, addressOrder: r.AddressOrder, tls: resolve(d, r.CAFile, r.CertFile, r.KeyFile),
			at: placeOf(d, "relays", document.Index(i)),
		})
	}
	if a := in.APIServer; a != nil {
		out = append(out, draft{kind: API, kubeconfig: d.Resolve(a.Kubeconfig), inCluster: a.InCluster, clusterUID: a.ClusterUID, at: placeOf(d, "apiServer")})
	}
	return out
}

// put adds an entry, or replaces one of the same name from another file.
func (c *collected) put(entry draft) error {
	i, ok := c.places[entry.name()]
	switch {
	case !ok:
		c.places[entry.name()] = len(c.drafts[entry.kind])
		c.drafts[entry.kind] = append(c.drafts[entry.kind], entry)
	case c.drafts[entry.kind][i].from == entry.from:
		return entry.at("name", fmt.Sprintf("there is a source %s already; give each a name of its own", entry.name()))
	default:
		c.drafts[entry.kind][i] = entry
	}
	return nil
}

func placeOf(d *document.Document, at ...string) place {
	return func(field, reason string) error {
		f := document.Field(at)
		if field != "" {
			f = f.With(field)
		}
		return d.Mistake(f, reason)
	}
}

func resolve(d *document.Document, caFile, certFile, keyFile string) TLSFiles {
	return TLSFiles{CAFile: d.Resolve(caFile), CertFile: d.Resolve(certFile), KeyFile: d.Resolve(keyFile)}
}
