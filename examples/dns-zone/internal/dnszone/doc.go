// Package dnszone gives every Service with an IP its records in a zone file:
//
//	controller, err := dnszone.New(client, &zonefile.File{Path: path, Origin: "example.com."}, nil)
//
// The file is outside of the cluster. It cannot be watched, and it still has
// the records of Services that were deleted while the controller was not
// running.
//
//	Services ──key──▶ reconcile: any addresses?    ── yes ──▶ its records as they must be
//	   ▲                                └── no, deleted ──▶ ask the server, then remove them
//	   └── known names: whose records there are (at start and periodically)
//
// The contract:
//
//   - A reconcile changes the records of one Service. It does not touch the
//     rest of the file.
//   - Every record is checked once in each resync, so that edits of the file
//     are noticed.
//   - No record is removed unless the server confirms that the Service has no
//     addresses.
package dnszone
