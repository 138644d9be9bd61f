// Package dnszone gives every Service with an IP its records in a zone file.
//
// The file is outside of the cluster: it cannot be watched, and it still knows
// the Services that were deleted while it was down.
//
//		Services ──key──▶ reconcile: has it addresses? ── yes ──▶ its records as they must be
//		   ▲                                └── no, gone ──▶ ask the server, then remove them
//		   └── known names: whose records there are (at start and periodically)
//
//	  - One Service, one reconcile, one change of its own records: the rest of the file
//	    is not touched.
//	  - Every record is looked at again once in each resync: that is how an edit of
//	    the file is noticed.
//	  - Nothing is removed on the word of a cache alone.
package dnszone
