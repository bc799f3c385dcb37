//! The pages of a list, read to the end.

use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_async::future::pagination_stream::PaginationStream;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;

use super::Error;

/// Resources a page: the most that all calls with it allow (`DescribeVolumes`: 500). Without a number
/// EC2 may throttle or time out on large accounts.
pub(super) const PAGE: i32 = 500;

/// Reads all pages of `call`: what `parse` returns for each, in one list.
pub(super) async fn read_pages<P, E, T>(
    call: &'static str,
    mut pages: PaginationStream<Result<P, SdkError<E, HttpResponse>>>,
    parse: impl Fn(P) -> Result<Vec<T>, String>,
) -> Result<Vec<T>, Error>
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| Error::from_sdk(call, &error))?;
        found.extend(parse(page).map_err(|doubt| Error::unreadable(call, doubt))?);
    }
    Ok(found)
}
