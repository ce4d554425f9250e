package podenv

import "regexp"

// ofAPIServer matches the variables of the service default/kubernetes, by which clients in pods find the API server.
var ofAPIServer = regexp.MustCompile(
	`^KUBERNETES_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// addServices takes in the services' variables: all of them unless the pod wants no service links.
func (b *builder) addServices() error {
	links := b.Pod.Spec.EnableServiceLinks
	all := links == nil || *links
	for _, v := range b.Services {
		if !all && !ofAPIServer.MatchString(v.Name) {
			continue
		}
		if err := b.set(v.Name, v.Value); err != nil {
			return err
		}
	}
	return nil
}
