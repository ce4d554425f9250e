// Package skew runs the daemons of this version with those of the previous one. The two are upgraded and downgraded one at
// a time, in either order, on containerd: each version opens the other one's stores, the stream resumes, and no container
// restarts.
//
// The file previous has the commit of the previous version. It is the one place to change after a release. The test builds
// that commit from the clone's history, so the clone must not be shallow.
package skew
