package initiator

import "errors"

// Job is what is done in one helper. One field besides Host is set.
type Job struct {
	Host   Host    `json:"host,omitzero"`
	Look   *Look   `json:"look,omitempty"`
	Attach *Attach `json:"attach,omitempty"`
	Detach *Detach `json:"detach,omitempty"`
	Logout *Logout `json:"logout,omitempty"`
	Map    *Map    `json:"map,omitempty"`
	Unmap  *Unmap  `json:"unmap,omitempty"`
}

// Answer is the result of a Job: the field of the same job is set, if it has one.
type Answer struct {
	Seen      *Seen      `json:"seen,omitempty"`
	Attached  *Attached  `json:"attached,omitempty"`
	LoggedOut *LoggedOut `json:"loggedOut,omitempty"`
}

var errNoJob = errors.New("the helper doesn't have this job")

// Do does the job.
func (j *Job) Do() (a Answer, err error) {
	switch {
	case j.Look != nil:
		a.Seen, err = j.Look.do(&j.Host)
	case j.Attach != nil:
		a.Attached = j.Attach.do(&j.Host)
	case j.Detach != nil:
		err = j.Detach.do(&j.Host)
	case j.Logout != nil:
		a.LoggedOut, err = j.Logout.do(&j.Host)
	case j.Map != nil:
		err = j.Map.do()
	case j.Unmap != nil:
		err = j.Unmap.do()
	default:
		err = errNoJob
	}
	return a, err
}

// MapKind is the kind of a Map.
const MapKind = "iscsi-map"

// Kind returns the name of the job.
func (j *Job) Kind() string {
	switch {
	case j.Look != nil:
		return "iscsi-look"
	case j.Attach != nil:
		return "iscsi-attach"
	case j.Detach != nil:
		return "iscsi-detach"
	case j.Logout != nil:
		return "iscsi-logout"
	case j.Map != nil:
		return MapKind
	case j.Unmap != nil:
		return "iscsi-unmap"
	default:
		return "none"
	}
}
